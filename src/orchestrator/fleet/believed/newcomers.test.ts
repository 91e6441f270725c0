import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId } from "../../../core/ids.ts";
import {
  believedGflops,
  isNewcomer,
  NewcomersDoor,
  ProvingWork,
  provingSteps,
  SeenWork,
  UsualSpeed,
} from "./newcomers.ts";

const id = (name: string) => name as PNodeId;

test("a machine is a newcomer until it has taken part in enough steps, or somebody says more of it", () => {
  assert.ok(isNewcomer({ trust: "untrusted" }));
  assert.ok(!isNewcomer({ trust: "untrusted", worked: true }));
  assert.ok(!isNewcomer({ trust: "known" }));
  const proving = new ProvingWork();
  assert.ok(!proving.note(id("a"), provingSteps - 1));
  assert.ok(!proving.note(id("b"), 1));
  assert.ok(proving.note(id("a"), 1));
});

test("a claim counts up to four times the usual one, and where somebody was measured up to what is usual there", () => {
  const usual = new UsualSpeed();
  assert.equal(usual.most, Number.POSITIVE_INFINITY);
  usual.note(id("boaster"), { gflops: 2_000_000, source: "newcomer" });
  for (const name of ["a", "b", "c"]) usual.note(id(name), { gflops: 50, source: "newcomer" });
  assert.equal(usual.most, 200);
  for (const name of ["x", "y", "z", "w"]) usual.note(id(name), { gflops: 2_000_000, source: "newcomer" });
  usual.note(id("a"), { gflops: 40, source: "worker" });
  assert.equal(usual.most, 160, "newcomers do not outvote those who have worked");
  assert.ok(usual.note(id("a"), { gflops: 30, source: "measured" }));
  assert.equal(usual.most, 30);
  usual.note(id("b"), { gflops: 70, source: "measured" });
  usual.note(id("c"), { gflops: 90, source: "measured" });
  assert.equal(usual.most, 70);
  assert.ok(!usual.note(id("c"), { gflops: 90, source: "measured" }), "nothing new");
});

test("who says of its own clock that it is fast counts as fast only as far as steps passed with it", () => {
  const usual = new UsualSpeed();
  const seen = new SeenWork();
  for (const name of ["a", "b", "c"]) usual.note(id(name), { gflops: 50, source: "measured" });
  usual.note(id("boaster"), { gflops: 2_000_000, source: "measured" });
  assert.equal(believedGflops(usual, seen.of(id("boaster"))), 200);
  // Five operations a microsecond, told by a session's line once a second; two of the lines came together.
  for (const nowMs of [0, 1_000, 1_001, 5_000, 9_999]) assert.ok(!seen.note(id("boaster"), 5e9, nowMs));
  assert.ok(seen.note(id("boaster"), 5e9, 10_000));
  assert.equal(seen.of(id("boaster")), 2.5);
  assert.equal(believedGflops(usual, seen.of(id("boaster"))), 200, "nothing to speak of");
  // A machine that is really fast is known by its work.
  seen.note(id("fast"), 0, 0);
  assert.ok(seen.note(id("fast"), 1e12, 10_000));
  assert.equal(believedGflops(usual, seen.of(id("fast"))), 1_600);
  assert.ok(!seen.note(id("fast"), 1e10, 20_000), "it has waited for others since");
  assert.equal(seen.of(id("fast")), 100);
});

test("an address brings so many new machines within an hour, the machine itself any number", () => {
  let nowMs = 0;
  const door = new NewcomersDoor({ wallMs: () => 0, monotonicMs: () => nowMs });
  for (let i = 0; i < 256; i++) door.enter("192.0.2.1");
  assert.throws(() => door.enter("192.0.2.1"), /256 new machines have registered from 192.0.2.1/);
  door.enter("192.0.2.2");
  for (let i = 0; i < 1_000; i++) door.enter("127.0.0.1");
  nowMs = 3_600_000;
  door.enter("192.0.2.1");
});
