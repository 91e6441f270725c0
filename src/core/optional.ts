// Packages that not everybody needs: looked for beside the program (a clone has them all), then among what was added by
// `dcnr engine add`. Who needs one that is not there is told the command that brings it.

import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { fail } from "./errors.ts";

/** What can be added, by the name that a person uses for it. */
export type Addition = "native" | "postgres" | "dynamodb" | "s3";

/** Set by the program at its start, for the processes and threads that it starts too. */
const folderVariable = "DCNR_ADDITIONS";

export function setAdditionsFolder(folder: string): void {
  process.env[folderVariable] ??= folder;
}

export function additionsFolder(): string | undefined {
  return process.env[folderVariable];
}

/** The file that `specifier` stands for, if its package is there. */
export function findOptional(specifier: string, addition: Addition): string | undefined {
  const added = additionsFolder();
  const beside = createRequire(import.meta.url);
  for (const place of [beside, ...(added ? [createRequire(resolve(added, addition, "package.json"))] : [])]) {
    try {
      return place.resolve(specifier);
    } catch {
      // Not there: the next place.
    }
  }
  return undefined;
}

export async function loadOptional<T>(name: string, addition: Addition, purpose: string): Promise<T> {
  const file = findOptional(name, addition);
  if (file === undefined)
    fail("failed_precondition", `${purpose} needs the package ${name}, which is not here: dcnr engine add ${addition}`);
  const loaded = (await import(pathToFileURL(file).href)) as T & { readonly default?: T };
  return loaded.default ?? loaded;
}
