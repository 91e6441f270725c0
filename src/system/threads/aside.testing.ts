// Works for aside.test.ts: a thread finds them by the name of this module.

import type { Lane, Work } from "../../core/aside.ts";
import { fail } from "../../core/errors.ts";

const lane: Lane = { name: "testing", memoryMib: 24, idleMs: 60_000 };
const common = { lane, module: import.meta.url, what: "the test", deadlineMs: 60_000 };

let calls = 0;

export const counting: Work<number, { calls: number; input: number; onMainThread: boolean }> = {
  ...common,
  name: "counting",
  run: (input) => [
    { calls: ++calls, input, onMainThread: (globalThis as { mainOfTest?: boolean }).mainOfTest ?? false },
  ],
};

export const endless: Work<string, never> = {
  ...common,
  name: "endless",
  deadlineMs: 200,
  run: () => {
    for (;;) calls++;
  },
};

/** Waits so long in small pieces, as a thread does that gets little of a processor. */
export const waiting: Work<number, string> = {
  ...common,
  name: "waiting",
  deadlineMs: 200,
  run: (milliseconds) => {
    const never = new Int32Array(new SharedArrayBuffer(4));
    for (const startMs = performance.now(); performance.now() - startMs < milliseconds; ) Atomics.wait(never, 0, 0, 5);
    return ["done"];
  },
};

export const hungry: Work<string, number> = {
  ...common,
  name: "hungry",
  run: () => {
    const kept: object[] = [];
    for (;;) kept.push({ number: kept.length });
  },
};

export const refusing: Work<string, never> = {
  ...common,
  name: "refusing",
  run: (why) => fail("resource_exhausted", why),
};

export const inPieces: Work<number, readonly number[]> = {
  ...common,
  name: "inPieces",
  *run(count) {
    for (let i = 0; i < count; i++) yield [i];
  },
};
