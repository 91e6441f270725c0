// What happened in a simulated run: a hash over every event (two runs of one seed must agree on it), a count
// of injected faults by kind, and, when asked for, lines that a person can read.

import { hashText } from "./chance.ts";

export interface TraceLine {
  readonly atMs: number;
  readonly host: string;
  readonly text: string;
}

/** A run that prints more has gone wrong in a way that more lines would not explain. */
const linesMax = 200_000;

export class Trace {
  readonly lines: TraceLine[] = [];
  readonly faults = new Map<string, number>();
  readonly readable: boolean;
  #low = 0x811c9dc5;
  #high = 0x1b873593;

  constructor(readable = false) {
    this.readable = readable;
  }

  /** Adds an event to the hash; `text` must not depend on anything but the seed. `detail` is for readers only. */
  event(atMs: number, host: string, text: string, detail?: () => string): void {
    this.#mix(Math.round(atMs * 1000));
    this.#mix(hashText(host));
    this.#mix(hashText(text));
    if (!this.readable || this.lines.length >= linesMax) return;
    this.lines.push({ atMs, host, text: detail === undefined ? text : `${text} ${detail()}` });
  }

  fault(atMs: number, kind: string, host: string, detail = ""): void {
    this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1);
    this.event(atMs, host, detail === "" ? `! ${kind}` : `! ${kind}: ${detail}`);
  }

  get faultCount(): number {
    let count = 0;
    for (const value of this.faults.values()) count += value;
    return count;
  }

  get hash(): string {
    return this.#low.toString(16).padStart(8, "0") + this.#high.toString(16).padStart(8, "0");
  }

  /** The last `count` lines as text: time, host, what happened. */
  text(count = this.lines.length): string {
    return this.lines
      .slice(-count)
      .map(({ atMs, host, text }) => `${(atMs / 1000).toFixed(3).padStart(9)}  ${host.padEnd(14)} ${text}`)
      .join("\n");
  }

  #mix(word: number): void {
    this.#low = Math.imul(this.#low ^ (word >>> 0), 0x01000193) >>> 0;
    this.#high = Math.imul(this.#high ^ this.#low ^ Math.floor(word / 2 ** 32), 0x5bd1e995) >>> 0;
    this.#high = (this.#high ^ (this.#high >>> 15)) >>> 0;
  }
}
