// A small file that a process keeps for its next start: written beside itself and moved into place, so that it is whole or old.

import { mkdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** Larger ones are not ours. */
const bytesMax = 16 << 20;

export function keptFile(path: string) {
  return {
    read: async (): Promise<Uint8Array | undefined> => {
      try {
        return (await stat(path)).size > bytesMax ? undefined : await readFile(path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
        throw error;
      }
    },
    write: async (content: Uint8Array): Promise<void> => {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(`${path}.new`, content, { mode: 0o600 });
      await rename(`${path}.new`, path);
    },
  };
}
