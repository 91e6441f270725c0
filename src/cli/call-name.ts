// What people are told to type works where they are: in a clone and beside a package by npx, by the file's path where DCNR is one file,
// else by the program's own name.

/** How this program was called. */
export function callName(environment: NodeJS.ProcessEnv): string {
  const file = environment["DCNR_SINGLE_FILE"];
  if (file) return file;
  // What else npm runs (tests, scripts of others) tells nothing about how a person calls it.
  return ["exec", "start"].includes(environment["npm_command"] ?? "") ? "npx dcnr" : "dcnr";
}

/** A sentence of ours whose commands are called by that name. */
export function asCalled(sentence: string, name: string): string {
  return sentence.replace(/(?<![\w/.:@-]|npx )dcnr (?=[a-z]|--)/g, `${name} `);
}
