import { strict as assert } from "node:assert";
import { it } from "node:test";
import type { VNodeId } from "../../core/ids.ts";
import type { RepairPlan } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import { lineBefore, replanned } from "./repair.ts";

const vnodes = ["a", "b"] as VNodeId[];

/** A session whose VNodes have states of these steps. */
function scene(line: number, steps: readonly number[], more: Partial<SessionRecord> = {}) {
  const session = {
    vnodes,
    line,
    lineBefore: line,
    policy: { checkpointEvery: 1 },
    ...more,
  } as unknown as SessionRecord;
  const durable = Object.fromEntries(steps.map((step) => [String(step), { hash: `h${step}` }]));
  const records = new Map(vnodes.map((vnode) => [vnode, { vnode, durable } as unknown as VNodeRecord]));
  return { session, records };
}

it("a session goes back to the newest kept line that all have, and never below what is final", () => {
  const { session, records } = scene(20, [7, 8, 16, 20], { final: 7 });
  assert.equal(lineBefore(session, records, [], 19, new Set()), 16);
  assert.equal(lineBefore(session, records, [], 12, new Set()), 8);
  assert.equal(lineBefore(session, records, [], 3, new Set()), 7);
});

it("a repair that another one was faster than goes to a line that is still there, never forward", () => {
  const plan: RepairPlan = { line: 16, turn: 2, because: "a lie" };
  const back = scene(9, [0, 8, 9], { turn: 3 });
  assert.deepEqual(replanned(plan, back.session, back.records, []), { ...plan, line: 9, turn: 4 });
  const on = scene(20, [0, 8, 19, 20], { turn: 2, lineBefore: 19 });
  assert.equal(replanned(plan, on.session, on.records, []).line, 8, "16 was collected meanwhile");
});
