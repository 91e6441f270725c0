import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { sha256 } from "../../core/hash.ts";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { byLot, intervalsAtEnd, isDrawn } from "./lottery.ts";
import { auditRate, standingAtFirst, watchIntervals } from "./standing.ts";

const draws = (rate: number, count = 20_000) =>
  Array.from({ length: count }, (_, index) =>
    isDrawn(sha256(`draw ${index}`), "a" as VNodeId, rate, "sampled", 1_000, 2_000),
  ).filter(Boolean).length / count;

describe("the lottery", () => {
  it("draws as often as a machine's standing says, within three standard deviations, at any age", () => {
    const machine = standingAtFirst("p" as PNodeId);
    for (const right of [10, 20, 50, 100, 1_000, 100_000]) {
      const rate = auditRate({ ...machine, right });
      const sigma = Math.sqrt((rate * (1 - rate)) / 20_000);
      assert.ok(
        Math.abs(draws(rate) - rate) <= 3 * sigma + 1e-9,
        `${right} intervals, rate ${rate}, drawn ${draws(rate)}`,
      );
    }
  });

  it("never stops drawing, however long all was right", () => {
    const old = { ...standingAtFirst("p" as PNodeId), right: 10_000_000 };
    assert.equal(auditRate(old), 0.1);
    assert.equal(auditRate({ ...old, trusted: true }), 0.05);
  });

  it("draws every interval of a newcomer, after somebody was found wrong, and of whoever could not be checked", () => {
    const machine = { ...standingAtFirst("p" as PNodeId), right: 1_000 };
    assert.equal(auditRate(standingAtFirst("p" as PNodeId)), 1);
    const rateAfter = (since: number) => auditRate(machine, { since, liars: 0 });
    assert.deepEqual([0, watchIntervals - 1, watchIntervals].map(rateAfter), [1, 1, 0.5]);
    assert.equal(rateAfter(watchIntervals + 1_000), 0.1);
    assert.equal(auditRate({ ...machine, due: 1 }), 1);
  });

  it("draws more often for as many times longer as machines were found lying, and a tenth again in the end", () => {
    const machine = { ...standingAtFirst("p" as PNodeId), right: 1_000 };
    const halvedFor = (liars: number) => {
      let since = watchIntervals;
      while (auditRate(machine, { since, liars }) === 0.5) since++;
      return since - watchIntervals;
    };
    assert.equal(halvedFor(0), halvedFor(1), "a machine whose memory erred is no sign of others");
    for (const liars of [2, 7, 30]) assert.equal(halvedFor(liars), liars * halvedFor(1));
    assert.equal(auditRate(machine, { since: 1_000_000, liars: 30 }), 0.1);
  });

  it("draws the end of a session whole, and everything where every interval is to be checked", () => {
    const never = (assurance: "sampled" | "checked", left: number) =>
      isDrawn(sha256("x"), "a" as VNodeId, 0, assurance, left, 1_000);
    assert.ok(never("sampled", 39) && !never("sampled", 40) && never("checked", 500));
    assert.equal(intervalsAtEnd(10), 1);
  });

  it("orders candidates in a way that none of them chose, the same for everybody", () => {
    const candidates = Array.from({ length: 20 }, (_, index) => ({ pnode: `p${index}` as PNodeId }));
    const first = byLot(sha256("one"), "a" as VNodeId, candidates);
    assert.deepEqual(first, byLot(sha256("one"), "a" as VNodeId, candidates.toReversed()));
    assert.notDeepEqual(first, byLot(sha256("two"), "a" as VNodeId, candidates));
  });
});
