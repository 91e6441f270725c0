// Tells other processes on this machine that something was committed: whoever commits writes to a small file that all
// watch, and the file system does the rest. Nobody relies on it; where it does not work, looking now and then does.

import { closeSync, openSync, watch, writeSync } from "node:fs";
import type { Cancel } from "../../core/world.ts";

export class FileSignal {
  readonly #path: string;
  #file: number | undefined;

  constructor(path: string) {
    this.#path = path;
    try {
      this.#file = openSync(path, "w");
    } catch {
      // A folder that cannot be written to: then there is nothing to tell either.
    }
  }

  /** After the commit: watchers look at once, and must find it. */
  give(): void {
    if (this.#file === undefined) return;
    try {
      writeSync(this.#file, "\0", 0);
    } catch {
      // A full disk; watchers look now and then anyway.
    }
  }

  /** Undefined where the file system tells nothing. */
  watch(onSignal: () => void): Cancel | undefined {
    if (this.#file === undefined) return undefined;
    try {
      const watcher = watch(this.#path, { persistent: false }, onSignal);
      watcher.on("error", () => watcher.close());
      return () => watcher.close();
    } catch {
      return undefined;
    }
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}
