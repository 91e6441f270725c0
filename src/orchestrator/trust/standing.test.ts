import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import type { FaultKind, StandingRecord } from "../records/checking.ts";
import {
  auditRate,
  coolOffMs,
  isOut,
  levelOf,
  mayReturn,
  placementTrust,
  readmitted,
  reasonOf,
  standingAtFirst,
  withFault,
  withRight,
} from "./standing.ts";

const machine = (right = 0): StandingRecord => ({ ...standingAtFirst("p" as PNodeId), right });
const fault = (kind: FaultKind, wallMs = 1) => ({
  ...{ kind, wallMs, after: 0, story: `a ${kind}`, command: "dcnr audit s a 0" },
});

describe("a machine's standing", () => {
  it("grows with what was found right, and says why", () => {
    assert.equal(levelOf(machine(9)), "newcomer");
    assert.equal(levelOf(withRight(machine(9), 1)), "known");
    assert.equal(placementTrust(machine(9)), "untrusted");
    assert.equal(placementTrust(machine(10)), "known");
    assert.equal(placementTrust({ ...machine(), trusted: true }), "trusted");
    assert.match(reasonOf(machine(3)), /^3 intervals found right or final; known from 10 on$/);
  });

  it("of one whose memory errs, or that has not stored what others need, falls at first, and is quarantined only if that happens again soon", () => {
    for (const kind of ["hardware", "withholding"] as const) {
      const once = withFault(machine(500), fault(kind), "c");
      assert.equal(levelOf(once), "newcomer");
      assert.equal(levelOf(withFault({ ...once, right: 400 }, fault(kind), "c")), "quarantined");
      assert.equal(levelOf(withFault({ ...once, right: 2_000 }, fault(kind), "c")), "newcomer");
    }
  });

  it("of one that erred once is not worse because two VNodes, or two intervals, show it", () => {
    for (const kind of ["hardware", "withholding"] as const) {
      const once = withFault(machine(500), { ...fault(kind, 100), doneWallMs: 40 }, "c");
      const neighbour = { ...fault(kind, 101), doneWallMs: 40, command: "dcnr audit s b 0" };
      assert.equal(levelOf(withFault(once, neighbour, "c")), "newcomer", kind);
      assert.equal(levelOf(withFault(once, { ...fault(kind, 103), doneWallMs: 60 }, "c")), "newcomer", kind);
      assert.equal(levelOf(withFault(once, { ...fault(kind, 200), doneWallMs: 150 }, "c")), "quarantined", kind);
    }
  });

  it("of one that rounds otherwise keeps what it earned; only the class is closed to it", () => {
    const other = withFault(machine(50), fault("class"), "avx512");
    assert.equal(levelOf(other), "known");
    assert.deepEqual(other.excluded, ["avx512"]);
    assert.deepEqual([isOut(other, "avx512"), isOut(other, "avx2")], [true, false]);
  });

  it("of a liar is quarantine, then for good; of one who contradicts himself for good at once", () => {
    const liar = withFault(machine(50), fault("lie"), "c");
    assert.equal(levelOf(liar), "quarantined");
    assert.equal(reasonOf(liar), "a lie");
    assert.ok(isOut(liar, "c"));
    const doubted = { ...machine(50), barred: { kind: "doubt", reason: "its result is another", wallMs: 1 } } as const;
    assert.ok(!isOut(doubted, "c"), "it may have been right");
    const back = readmitted(liar, 5);
    assert.equal(levelOf(back), "newcomer");
    assert.equal(levelOf(withFault(back, fault("lie", 4), "c")), "quarantined", "an old lie that is found late");
    assert.equal(levelOf(withFault(back, fault("lie", 6), "c")), "banned");
    assert.equal(levelOf(withFault(machine(50), fault("equivocation"), "c")), "banned");
  });

  it("of a liar found in many intervals at once is still quarantine: that is one offence", () => {
    const liar = withFault(withFault(machine(50), fault("lie", 1), "c"), fault("lie", 2), "c");
    assert.equal(levelOf(liar), "quarantined");
    assert.equal(liar.faults.length, 2);
  });

  it("of one that is barred gets no better by smaller faults that come to light later", () => {
    const liar = withFault(machine(50), fault("lie"), "c");
    for (const kind of ["class", "hardware", "silence"] as const)
      assert.equal(levelOf(withFault(liar, fault(kind), "c")), "quarantined", kind);
    const banned = withFault(machine(50), fault("equivocation"), "c");
    for (const kind of ["class", "hardware", "silence", "lie"] as const)
      assert.equal(levelOf(withFault(banned, fault(kind), "c")), "banned", kind);
  });

  it("of one in quarantine begins anew when its owner has examined it since and an hour has passed; of a banned one never", () => {
    const barredAt = fault("lie").wallMs;
    const liar = withFault(machine(50), fault("lie"), "c");
    assert.ok(!mayReturn(liar, barredAt - 1, barredAt + coolOffMs), "it was examined before");
    assert.ok(!mayReturn(liar, barredAt + 1, barredAt + coolOffMs - 1), "too soon");
    assert.ok(mayReturn(liar, barredAt + 1, barredAt + coolOffMs));
    const back = readmitted(liar, barredAt + coolOffMs);
    assert.equal(levelOf(back), "newcomer");
    assert.equal(auditRate(back), 1, "all that it computes is checked");
    const banned = withFault(machine(50), fault("equivocation"), "c");
    assert.ok(!mayReturn(banned, barredAt + 1, barredAt + coolOffMs));
    assert.ok(!mayReturn(machine(50), barredAt + 1, barredAt + coolOffMs));
  });
});
