import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { AuditRecord } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { lossesAbove } from "./losses.ts";

const [first, copy, late, liar, checker] = ["first", "copy", "late", "liar", "checker"] as PNodeId[] as [
  ...(readonly [PNodeId, PNodeId, PNodeId, PNodeId, PNodeId]),
];

/** What is lost above a line of a VNode that is worth a credit a step. */
function lost(line: number, session: Partial<SessionRecord>, audit: Partial<AuditRecord> = {}, convicts = [liar]) {
  const vnode = "a" as VNodeId;
  const work = { "10": [liar, first], "20": [first, copy, late], "30": [copy] };
  const records = new Map([[vnode, { vnode, work, flops: 1_000_000 } as unknown as VNodeRecord]]);
  const audits = { a: { stated: [], tasks: [], accused: [], ready: true, ...audit } };
  const all = { vnodes: [vnode], policy: {}, ...session } as unknown as SessionRecord;
  return lossesAbove(all, records, { from: 10, to: 20, audits }, line, new Set(convicts));
}

it("what others would have been paid for above the line is lost, once for each owner that was wanted", () => {
  assert.deepEqual(lost(10, {}), [
    { pnode: first, credits: 10 },
    { pnode: copy, credits: 10 },
  ]);
  assert.deepEqual(lost(10, { policy: { replicas: 2 } as never }), [
    { pnode: first, credits: 10 },
    { pnode: copy, credits: 20 },
  ]);
  assert.deepEqual(lost(0, {}), lost(10, {}), "what the liar did is no loss");
  assert.deepEqual(lost(10, {}, {}, []), [], "nobody pays for it where nobody lied");
});

it("what is final was paid, and is not lost with its states", () => {
  assert.deepEqual(lost(0, { final: 20 }), [{ pnode: copy, credits: 10 }]);
});

it("whoever repeated it and came to what is right loses that work, and nobody who has not finished", () => {
  const task = { role: "audit", trusted: false, sinceWallMs: 0 } as const;
  const tasks = [
    { ...task, pnode: checker, result: "right" },
    { ...task, pnode: late },
  ];
  const outcome = { kind: "wrong", by: "strangers", reason: "", result: "right", wallMs: 0 } as const;
  const found = lost(20, {}, { tasks, outcome });
  assert.deepEqual(found.find(({ pnode }) => pnode === checker)?.credits, 10);
  assert.deepEqual(
    lost(20, {}, { tasks }).map(({ pnode }) => pnode),
    [copy],
    "another VNode's check is still open",
  );
});
