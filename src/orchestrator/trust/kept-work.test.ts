import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import { resultOf } from "../../trust/statement.ts";
import type { Accused, IntervalRecord, Stated } from "../records/checking.ts";
import { auditCommand, keptWork } from "./kept-work.ts";

const [honest, liar, checker, next] = ["honest", "liar", "checker", "next"] as PNodeId[] as [
  ...(readonly [PNodeId, PNodeId, PNodeId, PNodeId]),
];

function stated(pnode: PNodeId, after: string): Stated {
  return { pnode, turn: 0, statement: { after, outputs: "", edges: {} } } as unknown as Stated;
}

function interval(turn: number, all: readonly Stated[], accused: readonly Partial<Accused>[] = []): IntervalRecord {
  const audits = { v: { stated: all, tasks: [], ready: true, accused } };
  return { session: "s", from: 20, to: 40, turn, audits } as unknown as IntervalRecord;
}

function accusedOf(pnode: PNodeId, after: string, of: Accused["of"] = "statement"): Partial<Accused> {
  return { pnode, of, result: resultOf(stated(pnode, after).statement) };
}

/** Who did, in which turn, what is repeated by the command that a fault tells. */
function told(kept: readonly IntervalRecord[], wrong: IntervalRecord, accused: Partial<Accused>) {
  const [, , , vnode = "", step, , of, , turn] = auditCommand(wrong, "v", accused as Accused).split(" ");
  const found = keptWork(kept, { vnode, step: Number(step), of: of as PNodeId, turn: Number(turn) });
  return found && [found.pnode, found.stated.statement.after, found.interval.turn, found.checkedTo !== undefined];
}

it("the command of a fault is about what was wrong, though the interval is being computed and checked again", () => {
  const lie = accusedOf(liar, "lie");
  const convicted = interval(0, [stated(liar, "lie")], [lie]);
  const again = interval(1, [stated(next, "right")]);
  for (const kept of [
    [again, convicted],
    [convicted, again],
  ])
    assert.deepEqual(told(kept, convicted, lie), [liar, "lie", 0, false]);
  assert.equal(keptWork([again, convicted], { vnode: "v", step: 25 })?.pnode, liar, "who asks without a name means it");
  assert.equal(keptWork([again], { vnode: "v", step: 25 })?.pnode, next);
});

it("each conviction of an interval, and each owner of a VNode that has several, is told apart", () => {
  const [first, second] = [accusedOf(liar, "one"), accusedOf(next, "two")];
  const of = (turn: number, accused: Partial<Accused>, after: string) =>
    interval(turn, [stated(honest, "right"), stated(accused.pnode as PNodeId, after)], [accused]);
  const kept = [of(0, first, "one"), of(3, second, "two")] as const;
  assert.deepEqual(told(kept, kept[0], first), [liar, "one", 0, false]);
  assert.deepEqual(told(kept, kept[1], second), [next, "two", 3, false]);
  assert.equal(keptWork(kept, { vnode: "v", step: 39, of: honest })?.stated.statement.after, "right");
  assert.equal(keptWork(kept, { vnode: "v", step: 40 }), undefined, "another interval");
  assert.equal(keptWork(kept, { vnode: "v", step: 20, turn: 1 }), undefined);
});

it("of two things that it stated, the one that it was found wrong in", () => {
  const wrong = interval(0, [stated(liar, "right"), stated(liar, "lie")], [accusedOf(liar, "lie")]);
  assert.deepEqual(told([wrong], wrong, accusedOf(liar, "lie")), [liar, "lie", 0, false]);
});

it("whoever checked it wrongly is compared by what it came to; what was sent is repeated by nobody", () => {
  const slander = accusedOf(checker, "slander", "audit");
  const wrong = interval(0, [stated(honest, "right")], [slander]);
  assert.deepEqual(told([wrong], wrong, slander), [checker, "right", 0, true]);
  assert.equal(auditCommand(wrong, "v", { pnode: liar, of: "delivery" }), "");
});
