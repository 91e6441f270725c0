// Reliability, claims and flapping: what is believed of a PNode.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { create } from "@bufbuild/protobuf";
import { LimitsSchema } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { PNodeFacts } from "../../records/machines.ts";
import { contradictedSpeed, limitsOf, plausible } from "./claims.ts";
import { Flapping } from "./flapping.ts";
import { afterFailure, afterUptime, historyAtFirst, meanSecondsBetweenFailures } from "./reliability.ts";

const hour = 3_600_000;

describe("reliability", () => {
  it("falls with failures, recovers with uptime, and stays between 0 and 1", () => {
    let history = afterUptime(historyAtFirst, 48 * hour);
    assert.ok(history.reliability > 0.99);
    for (let i = 0; i < 10; i++) history = afterFailure(history);
    assert.ok(history.reliability > 0 && history.reliability < 0.05);
    const low = history.reliability;
    history = afterUptime(history, 6 * hour);
    assert.ok(Math.abs(1 - history.reliability - (1 - low) / 2) < 1e-9, "half of the gap is closed in a half-life");
    assert.equal(meanSecondsBetweenFailures(history), (54 * 3600) / 10);
  });

  it("adds up the same however uptime is cut", () => {
    const once = afterUptime(historyAtFirst, 10 * hour);
    let pieces = historyAtFirst;
    for (let i = 0; i < 10; i++) pieces = afterUptime(pieces, hour);
    assert.ok(Math.abs(once.reliability - pieces.reliability) < 1e-12);
    assert.equal(afterUptime(historyAtFirst, -hour).uptimeMs, 0, "a clock that goes back takes nothing away");
  });
});

describe("claims", () => {
  const facts = { cores: 4, gflops: 100, gpus: [] } as unknown as PNodeFacts;
  const gpus = (count: number) => Array.from({ length: count }, () => ({ model: "x", memoryBytes: 1, vendor: "y" }));

  it("believes usual machines and doubts impossible ones", () => {
    assert.deepEqual(plausible(facts).warnings, []);
    assert.deepEqual(plausible({ ...facts, gpus: gpus(8) }).warnings, []);
    const thousand = plausible({ ...facts, gpus: gpus(1_000) });
    assert.equal(thousand.facts.gpus.length, 0);
    assert.match(thousand.warnings[0] ?? "", /claims 1000 GPUs/);
    const fast = plausible({ ...facts, gflops: 1e9 });
    assert.equal(fast.facts.gflops, 2_000);
  });

  it("takes no size that could not be told to others", () => {
    const { memoryBytes } = limitsOf(create(LimitsSchema, { memoryBytes: 2n ** 64n - 1n }));
    assert.equal(memoryBytes, Number.MAX_SAFE_INTEGER);
  });

  it("trusts work over words", () => {
    assert.equal(contradictedSpeed(100, 50), undefined);
    assert.match(contradictedSpeed(10_000, 50) ?? "", /its work shows 50/);
  });
});

describe("flapping", () => {
  it("refuses a PNode that registers too often, and lets it in again after its wait", () => {
    let nowMs = 0;
    const flapping = new Flapping({ wallMs: () => 0, monotonicMs: () => nowMs });
    let waitMs = 0;
    let accepted = 0;
    for (let i = 0; i < 100; i++) {
      nowMs += 600;
      waitMs = flapping.attempt("p");
      if (waitMs === 0) accepted++;
    }
    assert.ok(accepted < 20, `${accepted} were accepted within a minute`);
    assert.ok(flapping.isFlapping("p"));
    assert.equal(flapping.attempt("q"), 0, "others are not concerned");
    nowMs += 120_000;
    assert.equal(flapping.attempt("p"), 0);
    assert.equal(flapping.isFlapping("p"), false);
  });
});
