import assert from "node:assert/strict";
import { test } from "node:test";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { checkSamples, FenceChecker, MetricChecker, RootChecker, Violations } from "./checkers.ts";

function record(epoch: number, pnode: string, states: Record<string, string> = {}, since = epoch): VNodeRecord {
  const durable = Object.fromEntries(Object.entries(states).map(([step, hash]) => [step, { hash, bytes: 1 }]));
  const members = [{ pnode, incarnation: "1", since, reason: "" }];
  return { session: "s", vnode: "v", epoch, members, durable, stepHashes: {}, failures: [] } as unknown as VNodeRecord;
}

test("a root that differs, or is missing in the end, is a divergence", () => {
  const violations = new Violations();
  const checker = new RootChecker(
    new Map([
      [1, "aa"],
      [2, "bb"],
      [3, "cc"],
    ]),
    violations,
  );
  checker.root(0, 1, "aa");
  assert.equal(violations.found.length, 0);
  checker.root(0, 2, "xx");
  checker.finish(0);
  assert.deepEqual(
    violations.found.map(({ kind }) => kind),
    ["divergence", "divergence"],
  );
});

test("ownership may change only with a new epoch, and durable states never", () => {
  const cases: [ReturnType<typeof record>, ReturnType<typeof record>, string[]][] = [
    [record(1, "a"), record(2, "b"), []],
    [record(1, "a"), record(1, "b"), ["fence"]],
    [record(2, "a"), record(1, "a"), ["fence"]],
    [record(1, "a", { 4: "h" }), record(1, "a", { 4: "h", 8: "i" }), []],
    [record(1, "a", { 4: "h" }), record(2, "a", { 4: "x" }), ["durable"]],
  ];
  for (const [before, after, expected] of cases) {
    const violations = new Violations();
    const checker = new FenceChecker(violations);
    checker.wrote(0, "vnode/s/v", before);
    checker.wrote(1, "vnode/s/v", after);
    assert.deepEqual(
      violations.found.map(({ kind }) => kind),
      expected,
    );
  }
});

test("a checkpoint accepted from a former owner under the new epoch breaks the fence", () => {
  const violations = new Violations();
  const checker = new FenceChecker(violations);
  checker.wrote(0, "vnode/s/v", record(1, "a"));
  checker.accepted(1, 1, "vnode/s/v", "a", 1);
  checker.wrote(10, "vnode/s/v", record(2, "b"));
  checker.accepted(11, 12, "vnode/s/v", "b", 2);
  checker.accepted(9, 12, "vnode/s/v", "a", 1);
  assert.equal(violations.found.length, 0, "what was asked before the change may be answered after it");
  checker.accepted(11, 12, "vnode/s/v", "a", 1);
  checker.accepted(11, 12, "vnode/s/v", "b", 1);
  assert.deepEqual(
    violations.found.map(({ kind }) => kind),
    ["fence", "fence"],
  );
});

test("a line that one VNode has not reached durably is wrong", () => {
  const violations = new Violations();
  const checker = new FenceChecker(violations);
  checker.wrote(0, "vnode/s/v", record(1, "a", { 4: "h" }));
  checker.wrote(0, "vnode/s/w", record(1, "a", { 8: "h" }));
  checker.line(0, 4, ["vnode/s/v"]);
  assert.equal(violations.found.length, 0);
  checker.wrote(1, "vnode/s/v", record(1, "a", { 8: "i" }));
  checker.line(1, 4, ["vnode/s/v"]);
  assert.equal(violations.found.length, 0, "what was durable may have been taken back since");
  checker.line(0, 4, ["vnode/s/v", "vnode/s/w"]);
  assert.equal(violations.found[0]?.kind, "line");
});

test("samples are used exactly once per pass", () => {
  assert.deepEqual(
    checkSamples(
      new Map([
        [0, [2, 0]],
        [1, [1, 3]],
        [2, [3, 1]],
      ]),
      4,
      2,
    ),
    [],
  );
  assert.equal(
    checkSamples(
      new Map([
        [0, [2, 0]],
        [1, [2, 3]],
      ]),
      4,
      2,
    ).length,
    1,
  );
  assert.equal(
    checkSamples(
      new Map([
        [0, [2, 0]],
        [1, [1]],
      ]),
      4,
      2,
    ).length,
    1,
  );
});

test("a PNode that was refused must not record another step", () => {
  const violations = new Violations();
  const checker = new FenceChecker(violations);
  checker.refused(5, "vnode/s/v", "a", 1, 4);
  checker.asked(6, 7, "vnode/s/v", "a", 1, 4);
  checker.asked(6, 7, "vnode/s/v", "b", 1, 6);
  checker.asked(6, 7, "vnode/s/v", "a", 2, 6);
  // Sent before the refusal, it only arrives after it.
  checker.asked(4, 7, "vnode/s/v", "a", 1, 6);
  assert.equal(violations.found.length, 0);
  checker.asked(6, 7, "vnode/s/v", "a", 1, 6);
  assert.equal(violations.found[0]?.kind, "fence");
});

test("a loss that differs from the undisturbed one, or from itself, is a divergence", () => {
  const violations = new Violations();
  const checker = new MetricChecker([new Map([["v loss 1", 0.5]])], violations);
  checker.reported(0, "v", "loss", 1, 0.5);
  checker.reported(0, "v", "loss", 2, 0.4);
  checker.reported(0, "v", "samples_per_second", 1, 3);
  assert.equal(violations.found.length, 0);
  checker.reported(0, "v", "loss", 2, 0.3);
  assert.equal(violations.found[0]?.kind, "divergence");
});
