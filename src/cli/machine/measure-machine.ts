// The numerics class of each engine and the speed of one core. Measured in a process of its own, which takes the
// engines with it when it ends: a PNode that waits for work stays small. Where this process may start no other, in a
// thread, which leaves a native library behind. Each class is told as soon as it is known: what a machine may compute does
// not depend on how fast it is.

import { execFile } from "node:child_process";
import { on } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { DcnrError, messageOf } from "../../core/errors.ts";
import { moduleBeside } from "../../core/module-beside.ts";

export interface Measured {
  /** Of one core. */
  readonly gflops: number;
  readonly classes: readonly { engine: string; class: string }[];
}

/** Of one core, where nothing is known yet: a modest one, so that real work corrects it upwards. */
export const gflopsEstimated = 10;

/** Loading two engines takes a second or two, and minutes on a machine with dozens of busy processes. */
const measureTimeoutMs = 600_000;

/** Hears of all that is known by then, again and again until it is everything. */
export type OnFound = (found: Measured) => void;

export async function measureMachine(onFound: OnFound = () => {}): Promise<Measured> {
  try {
    const findings = process.permission?.has("child") === false ? fromThread() : fromProcess();
    for await (const { isAll, ...found } of findings) {
      if (isAll) return found;
      onFound(found);
    }
    throw new Error("it ended before it knew everything");
  } catch (error) {
    throw new DcnrError("internal", `this machine's engines cannot be measured: ${messageOf(error)}`, { cause: error });
  }
}

/** What the program that measures says. */
export interface Finding extends Measured {
  readonly isAll: boolean;
}

const measuring = moduleBeside("./probes/measure-here.ts", import.meta.url);

async function* fromProcess(): AsyncGenerator<Finding> {
  const running = promisify(execFile)(process.execPath, [fileURLToPath(measuring)], { timeout: measureTimeoutMs });
  // Why it failed is told once what it said is read.
  running.catch(() => {});
  for await (const line of createInterface({ input: running.child.stdout as Readable }))
    yield JSON.parse(line) as Finding;
  await running;
}

async function* fromThread(): AsyncGenerator<Finding> {
  const thread = new Worker(measuring);
  // A PNode that stops does not wait for it.
  thread.unref();
  try {
    for await (const [finding] of on(thread, "message", { close: ["exit"] })) yield finding as Finding;
  } finally {
    await thread.terminate();
  }
}
