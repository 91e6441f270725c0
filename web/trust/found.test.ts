import assert from "node:assert/strict";
import { test } from "node:test";
import { convictions, recomputedShare, worstFirst } from "./found.ts";

test("who was found wrong comes first, and equals by name", () => {
  const machine = (name: string, standing: string) => ({ name, standing });
  const all = [machine("oak", "known"), machine("elm", "trusted"), machine("ash", "known"), machine("fir", "banned")];
  assert.deepEqual(
    worstFirst([...all, machine("yew", "quarantined"), machine("box", "newcomer")]).map(({ name }) => name),
    ["fir", "yew", "box", "ash", "oak", "elm"],
  );
});

test("convictions of all machines stand together, the newest first, and none is lost", () => {
  const fault = (wallMs: bigint, kind: string) => ({ wallMs, kind, story: kind, command: "dcnr audit s a 0" });
  const found = convictions([
    { pnode: "p1", name: "maple", faults: [fault(1n, "hardware"), fault(5n, "lie")] },
    { pnode: "p2", name: "", faults: [fault(3n, "silence")] },
    { pnode: "p3", name: "oak", faults: [] },
  ]);
  assert.deepEqual(
    found.map(({ machine, kind }) => [machine, kind]),
    [
      ["maple", "lie"],
      ["p2", "silence"],
      ["maple", "hardware"],
    ],
  );
  assert.equal(new Set(found.map(({ key }) => key)).size, 3);
});

test("a share is said only of what is final", () => {
  assert.equal(recomputedShare({ byTrusted: 0n, byStrangers: 0n, byNobody: 0n }), undefined);
  assert.equal(recomputedShare({ byTrusted: 1n, byStrangers: 2n, byNobody: 1n }), 0.75);
  assert.equal(recomputedShare({ byTrusted: 0n, byStrangers: 0n, byNobody: 4n }), 0);
});
