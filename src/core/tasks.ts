// Work in the background that must never end as an unhandled rejection: whatever fails is logged with its name.

import { messageOf } from "./errors.ts";
import type { Log } from "./world.ts";

export class Tasks {
  readonly #log: Log;
  readonly #running = new Set<Promise<void>>();

  constructor(log: Log) {
    this.#log = log;
  }

  run(what: string, task: () => Promise<unknown>): void {
    const running: Promise<void> = (async () => {
      try {
        await task();
      } catch (error) {
        this.#log("error", `${what}: ${messageOf(error)}`);
      }
    })().finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
