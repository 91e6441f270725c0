// The part of a lent disk that outlives the process: charters, and states that a PNode keeps for the crews it is of. Each
// file is written beside its place and then put there, so that it is whole or not there at all.

import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail } from "../../core/errors.ts";

const namePattern = /^[A-Za-z0-9_.-]{1,200}$/;
const unfinished = ".part";
/** The disk itself is full, or its owner's share of it. */
const fullCodes: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT"]);

/** Writing more than `bytesMax` in all fails with `resource_exhausted`. */
export async function openKept(directory: string, bytesMax = Number.POSITIVE_INFINITY) {
  const folder = join(directory, "kept");
  await mkdir(folder, { recursive: true });
  const held = new Map<string, number>();
  let bytesHeld = 0;
  let writes = 0;
  const count = (name: string, bytes: number) => {
    bytesHeld += bytes - (held.get(name) ?? 0);
    if (bytes === 0) held.delete(name);
    else held.set(name, bytes);
  };
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (name.endsWith(unfinished)) await rm(path, { force: true });
    else count(name, (await stat(path)).size);
  }
  const pathOf = (name: string) =>
    namePattern.test(name) ? join(folder, name) : fail("invalid_argument", `"${name.slice(0, 80)}" is no file's name`);
  return {
    list: async (): Promise<readonly string[]> => [...held.keys()],
    read: (name: string): Promise<Uint8Array | undefined> =>
      readFile(pathOf(name)).catch((error: NodeJS.ErrnoException) =>
        error.code === "ENOENT" ? undefined : Promise.reject(error),
      ),
    async write(name: string, content: Uint8Array): Promise<void> {
      const more = content.byteLength - (held.get(name) ?? 0);
      if (bytesHeld + more > bytesMax)
        fail("resource_exhausted", `the disk that is lent is full: ${bytesMax} bytes are for states that are kept`);
      const before = held.get(name) ?? 0;
      count(name, content.byteLength);
      const draft = `${pathOf(name)}.${++writes}${unfinished}`;
      try {
        await writeFile(draft, content);
        await rename(draft, pathOf(name));
      } catch (error) {
        count(name, before);
        await rm(draft, { force: true });
        if (fullCodes.has((error as NodeJS.ErrnoException).code ?? ""))
          fail("resource_exhausted", `no space is left on the disk of ${folder}`, error);
        throw error;
      }
    },
    freeBytes: (): number => bytesMax - bytesHeld,
    async remove(name: string): Promise<void> {
      await rm(pathOf(name), { force: true });
      count(name, 0);
    },
  };
}
