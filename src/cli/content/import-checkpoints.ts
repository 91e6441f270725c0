// Where an interrupted `dcnr dataset add` goes on: its last checkpoint, in the data directory, under a name made of
// everything that decides the result.

import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { canonicalJson, sha256 } from "../../core/hash.ts";
import type { ImportCheckpoint, ImportRequest } from "../../data/imports/import-run.ts";

export interface Checkpoints {
  read(): Promise<ImportCheckpoint | undefined>;
  /** Never fails: without it the next try starts from the beginning. */
  write(checkpoint: ImportCheckpoint): void;
  clear(): Promise<void>;
}

export function openCheckpoints(
  directory: string,
  orchestrator: string,
  name: string,
  request: ImportRequest,
  shardBytes: number,
): Checkpoints {
  const folder = join(directory, "imports");
  const path = join(folder, `${sha256(canonicalJson({ orchestrator, name, request, shardBytes })).slice(0, 32)}.json`);
  let writing: Promise<unknown> = Promise.resolve();
  return {
    async read() {
      const text = await readFile(path, "utf8").catch(() => undefined);
      try {
        return text === undefined ? undefined : (JSON.parse(text) as ImportCheckpoint);
      } catch {
        return undefined;
      }
    },
    write(checkpoint) {
      writing = writing
        .then(async () => {
          await mkdir(folder, { recursive: true });
          await writeFile(`${path}.new`, JSON.stringify(checkpoint));
          await rename(`${path}.new`, path);
        })
        .catch(() => {});
    },
    async clear() {
      await writing;
      await rm(path, { force: true });
    },
  };
}
