import assert from "node:assert/strict";
import { test } from "node:test";
import type { PNodeId } from "../../../core/ids.ts";
import { isNewcomer, NewcomersDoor, ProvingWork, provingSteps, UsualSpeed } from "./newcomers.ts";

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
