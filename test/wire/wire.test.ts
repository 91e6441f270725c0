// Real processes whose connections fail at every phase and in both directions. `npm run wires` does it for longer.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fault } from "./proxy.ts";
import { disturbWires, type Volley } from "./wires.ts";

/** One of each kind and of each phase, stalls rarely: they take as long as it takes to notice them. */
const faults: readonly [Volley["where"], Fault["kind"], Fault["direction"], Fault["phase"]][] = [
  ["peers", "reset", "there", "flow"],
  ["orchestrator", "close", "back", "hello"],
  ["peers", "close", "back", "open"],
  ["peers", "stall", "there", "flow"],
  ["peers", "half-open", "there", "answer"],
  ["orchestrator", "half-open", "back", "flow"],
  ["peers", "close", "there", "connect"],
  ["peers", "reset", "back", "answer"],
  ["peers", "stall", "back", "hello"],
];

test("dozens of connections stall, close, break and half-open: no bit changes, nothing stands still for long", async (context) => {
  const report = await disturbWires({
    pnodes: 3,
    steps: 30,
    volleys: faults.map(([where, kind, direction, phase]) => ({ where, kind, direction, phase })),
    print: (line) => context.diagnostic(line),
  });
  context.diagnostic(`${report.faults} faults, longest standstill ${report.standstillMs} ms (${report.standstill})`);
  assert.ok(report.faults >= 24, `only ${report.faults} connections failed`);
  assert.deepEqual([...new Set(report.roots)], [report.root]);
  assert.ok(report.standstillMs <= 15_000, `${report.standstillMs} ms without a step after ${report.standstill}`);
});
