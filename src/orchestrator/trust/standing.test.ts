import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import type { FaultKind, StandingRecord } from "../records/records.ts";
import { levelOf, placementTrust, readmitted, reasonOf, standingAtFirst, withFault, withRight } from "./standing.ts";

const machine = (right = 0): StandingRecord => ({ ...standingAtFirst("p" as PNodeId), right });
const fault = (kind: FaultKind) => ({ kind, wallMs: 1, after: 0, story: `a ${kind}`, command: "dcnr audit s a 0" });

describe("a machine's standing", () => {
  it("grows with what was found right, and says why", () => {
    assert.equal(levelOf(machine(9)), "newcomer");
    assert.equal(levelOf(withRight(machine(9), 1)), "known");
    assert.equal(placementTrust(machine(9)), "untrusted");
    assert.equal(placementTrust(machine(10)), "known");
    assert.equal(placementTrust({ ...machine(), trusted: true }), "trusted");
    assert.match(reasonOf(machine(3)), /^3 intervals found right or final; known from 10 on$/);
  });

  it("of one whose memory errs falls at first, and is quarantined only if that happens again soon", () => {
    const once = withFault(machine(500), fault("hardware"), "c");
    assert.equal(levelOf(once), "newcomer");
    assert.equal(levelOf(withFault({ ...once, right: 400 }, fault("hardware"), "c")), "quarantined");
    assert.equal(levelOf(withFault({ ...once, right: 2_000 }, fault("hardware"), "c")), "newcomer");
  });

  it("of one that rounds otherwise keeps what it earned; only the class is closed to it", () => {
    const other = withFault(machine(50), fault("class"), "avx512");
    assert.equal(levelOf(other), "known");
    assert.deepEqual(other.excluded, ["avx512"]);
  });

  it("of a liar is quarantine, then for good; of one who contradicts himself for good at once", () => {
    const liar = withFault(machine(50), fault("lie"), "c");
    assert.equal(levelOf(liar), "quarantined");
    assert.equal(reasonOf(liar), "a lie");
    const back = readmitted(liar);
    assert.equal(levelOf(back), "newcomer");
    assert.equal(levelOf(withFault(back, fault("lie"), "c")), "banned");
    assert.equal(levelOf(withFault(machine(50), fault("equivocation"), "c")), "banned");
  });
});
