// Files that people name on the command line, with errors that say what to do.

import { readFile, stat } from "node:fs/promises";
import { fail } from "../../core/errors.ts";

/** A definition of a large network has some hundred kilobytes; anything bigger is a mistake. */
const textBytesMax = 16 << 20;

export async function readTextFile(path: string, what: string): Promise<string> {
  const info = await stat(path).catch(() => undefined);
  if (!info) fail("not_found", `there is no file ${path}: give the path of a ${what}`);
  if (info.isDirectory()) fail("invalid_argument", `${path} is a directory: give the path of a ${what}`);
  if (info.size > textBytesMax) fail("invalid_argument", `${path} has ${info.size} bytes, too many for a ${what}`);
  return readFile(path, "utf8");
}
