// A benchmarked process: one line in (how many steps), one line of JSON out.

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface, type Interface } from "node:readline";

export interface Measurement {
  readonly cpuMs: number;
  readonly wallMs: number;
  readonly rssMb: number;
  readonly losses: readonly number[];
}

export class Side {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #reader: Interface;

  private constructor(command: string, args: readonly string[], env: Record<string, string>) {
    this.#child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, ...env } });
    this.#reader = createInterface({ input: this.#child.stdout! });
    this.#lines = this.#reader[Symbol.asyncIterator]();
  }

  /** Resolves when the process says that it is ready. */
  static async start(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<Side> {
    const side = new Side(command, args, env);
    await side.#next();
    return side;
  }

  async #next(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error("a benchmarked process ended early: its error stands above");
    return JSON.parse(value);
  }

  async run(steps: number): Promise<Measurement> {
    this.#child.stdin!.write(`${steps}\n`);
    return (await this.#next()) as Measurement;
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.stdin!.end();
    await ended;
    this.#reader.close();
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
