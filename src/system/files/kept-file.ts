// A small file that a process keeps for its next start.

import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { readWhole, writeWhole } from "./whole-file.ts";

export function keptFile(path: string) {
  return {
    read: () => readWhole(path),
    write: async (content: Uint8Array): Promise<void> => {
      await mkdir(dirname(path), { recursive: true });
      await writeWhole(path, content);
    },
  };
}
