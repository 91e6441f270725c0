// A folder of files as a source: every file below it, in the order of names, with the folder that it lies in. Nothing is
// read here but names and sizes; links that lead out of the folders that may be read are refused.

import { opendir, realpath, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { isBelowOne, type SourceAccess } from "./source.ts";

export interface FolderFile {
  readonly path: string;
  readonly bytes: number;
  /** The folder below the source that it lies in; "" for the source itself. */
  readonly group: string;
}

export interface Folder {
  readonly name: string;
  readonly files: readonly FolderFile[];
  readonly bytes: number;
  /** Changes when a file does. */
  readonly tag: string;
}

/** More names would not fit the memory of a small machine. */
const filesMax = 1_000_000;

export async function isFolder(location: string): Promise<boolean> {
  const path = location.startsWith("file:") ? undefined : location;
  return path !== undefined && path !== "-" && ((await stat(path).catch(() => undefined))?.isDirectory() ?? false);
}

/** Files with one of the endings, in the folder itself or in folders directly below it. */
export async function openFolder(path: string, endings: readonly string[], access: SourceAccess): Promise<Folder> {
  const real = await realpath(resolve(path));
  await checkAllowed(real, path, access);
  const files: (FolderFile & { readonly changedMs: number })[] = [];
  const visit = async (folder: string, group: string): Promise<void> => {
    for (const name of await namesIn(folder)) {
      // Hidden files are of the system, not of the data.
      if (name.startsWith(".")) continue;
      const at = join(folder, name);
      const found = await stat(at).catch(() => undefined);
      if (found?.isDirectory() && group === "") await visit(at, name);
      if (!found?.isFile() || !endings.some((ending) => name.toLowerCase().endsWith(`.${ending}`))) continue;
      await checkAllowed(await realpath(at), at, access);
      files.push({ path: at, bytes: found.size, group, changedMs: found.mtimeMs });
      if (files.length > filesMax) fail("resource_exhausted", `${path} has more than ${filesMax} files`);
    }
  };
  await visit(real, "");
  if (files.length === 0) fail("invalid_argument", `${path} has no files that end in ${endings.join(", ")}`);
  const list = files.map(({ path: each, bytes, changedMs }) => `${each} ${bytes} ${changedMs}`).join("\n");
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  return { name: path, files, bytes, tag: sha256(new TextEncoder().encode(list)) };
}

async function checkAllowed(real: string, path: string, { folders }: SourceAccess): Promise<void> {
  if (folders && !(await isBelowOne(real, folders)))
    fail("permission_denied", `${path} is outside the folders that may be read: ${folders.join(", ")}`);
}

/** By code units: no machine's language changes the order of samples. */
async function namesIn(folder: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(folder)) {
    names.push(name);
    if (names.length > filesMax) fail("resource_exhausted", `${folder} has more than ${filesMax} entries`);
  }
  return names.sort((a, b) => (a < b ? -1 : 1));
}
