// What a machine has given since it first joined: time, steps, computing. Kept in its folder, for its owner alone.

import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

export interface Given {
  readonly lentMs: number;
  /** Steps of VNodes: one VNode that learned from one batch. */
  readonly steps: number;
  readonly computedMs: number;
}

const nothing: Given = { lentMs: 0, steps: 0, computedMs: 0 };
/** A core at work, with its share of memory and power supply: between a laptop's 5 and a desktop's 15. */
const wattsPerCore = 10;

export class GivenTotals {
  readonly #path: string;
  readonly #before: Given;
  #steps = 0;
  #computedMs = 0;
  #lentMs = 0;

  private constructor(path: string, before: Given) {
    this.#path = path;
    this.#before = before;
  }

  static async open(folder: string): Promise<GivenTotals> {
    const path = join(folder, "given.json");
    const text = await readFile(path, "utf8").catch(() => "");
    return new GivenTotals(path, givenFrom(text));
  }

  work(kind: string, durationMs: number): void {
    if (kind === "update") this.#steps += 1;
    this.#computedMs += durationMs;
  }

  passed(ms: number): void {
    this.#lentMs += ms;
  }

  get now(): Given {
    return {
      lentMs: this.#before.lentMs + this.#lentMs,
      steps: this.#before.steps + this.#steps,
      computedMs: this.#before.computedMs + this.#computedMs,
    };
  }

  async save(): Promise<void> {
    const aside = `${this.#path}.${process.pid}`;
    await writeFile(aside, JSON.stringify(this.now));
    await rename(aside, this.#path);
  }
}

/** Of what computing took; the machine's rest is not counted. */
export function wattHours({ computedMs }: Given): number {
  return (computedMs / 3_600_000) * wattsPerCore;
}

function givenFrom(text: string): Given {
  try {
    const read = JSON.parse(text) as Partial<Record<keyof Given, unknown>>;
    const number = (value: unknown) => (typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : 0);
    return { lentMs: number(read.lentMs), steps: number(read.steps), computedMs: number(read.computedMs) };
  } catch {
    return nothing;
  }
}
