// Tables of served models in files of a PNode's own directory (stage/tables.ts), as far as its owner lends disk. A file's name goes as
// soon as it is open, where the system allows that: nothing is left of it when the process ends, however it ends.

import { closeSync, mkdirSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { threadId } from "node:worker_threads";
import { fail } from "../../core/errors.ts";
import type { OpenTable, TableFile } from "../stage/tables.ts";
import type { WorkerFiles } from "./messages.ts";

/** Of one worker. */
export function tableFiles({ folder, bytesMax }: WorkerFiles): OpenTable {
  let [held, made] = [0, 0];
  return (bytes, content) => {
    if (held + bytes > bytesMax) return undefined;
    const path = join(folder, `${process.pid}-${threadId}-${made++}`);
    try {
      mkdirSync(folder, { recursive: true });
      const file = write(path, content);
      held += bytes;
      return fileOver(file, path, () => {
        held -= bytes;
      });
    } catch {
      // A full disk, or one that may not be written to: the table stays in memory.
      remove(path);
      return undefined;
    }
  };
}

function write(path: string, content: Iterable<Uint8Array>): number {
  const file = openSync(path, "wx+", 0o600);
  try {
    for (const chunk of content)
      for (let at = 0; at < chunk.length; ) at += writeSync(file, chunk, at, chunk.length - at);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

function fileOver(file: number, path: string, closed: () => void): TableFile {
  remove(path);
  let isOpen = true;
  return {
    read(from, into) {
      for (let at = 0; at < into.length; ) {
        const count = readSync(file, into, at, into.length - at, from + at);
        if (count === 0) fail("data_loss", `the table in ${path} is shorter than what was written to it`);
        at += count;
      }
    },
    close() {
      if (!isOpen) return;
      isOpen = false;
      closeSync(file);
      remove(path);
      closed();
    },
  };
}

/** Windows keeps the name of what is open. */
function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // It goes when the file is closed, or with the folder at the next start.
  }
}
