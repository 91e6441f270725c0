// The place of a module that a thread or a process starts from. In a clone it is TypeScript, in the package JavaScript, where only what
// is named here, or names itself for others (aside.ts), has a file of its own: scripts/bundle.ts reads these calls.

/** `name` as it is in the sources ("./worker.ts"); `here` is the address of the module that asks. */
export function moduleBeside(name: `./${string}.ts`, here: string): URL {
  return new URL(here.endsWith(".ts") ? name : name.replace(/\.ts$/, ".js"), here);
}
