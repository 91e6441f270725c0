// The environment of a process whose modules are changed before it starts: it runs the modules themselves, not what `npm test` has
// bundled for all others.

export const fromSources: NodeJS.ProcessEnv = { ...process.env, DCNR_TEST_PROGRAM: "" };
