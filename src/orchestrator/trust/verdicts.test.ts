import { strict as assert } from "node:assert";
import { it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { SessionStatus } from "../records/sessions.ts";
import type { Standings } from "./standings.ts";
import { mustBeUndone, Verdicts } from "./verdicts.ts";

/** Whom a network clears that doubts `p`, whose accusation in a session of this status is open or not. */
async function cleared(status: SessionStatus | undefined, isOpen: boolean): Promise<readonly string[]> {
  const accused = { pnode: "p" as PNodeId, ...(isOpen ? {} : { verdict: "cleared" }) };
  const context = {
    mirror: {
      under: () => [{ session: "s", audits: { a: { accused: [accused] } } }],
      get: () => (status === undefined ? undefined : { status }),
    },
  } as unknown as Context;
  const names: string[] = [];
  const standings = {
    all: () => [
      { pnode: "p", barred: { kind: "doubt" } },
      { pnode: "q", barred: { kind: "banned" } },
    ],
    clear: async (pnode: string) => void names.push(pnode),
  } as unknown as Standings;
  await new Verdicts(context, standings).endDoubts();
  return names;
}

it("an interval is undone by whoever finds it found out and left so, and no more once that is planned", () => {
  const right = { outcome: { kind: "right" }, accused: [] };
  const wrong = { outcome: { kind: "wrong" }, accused: [{ verdict: "lie", told: true }] };
  const asked = { outcome: { kind: "wrong" }, accused: [{}] };
  const undone = (interval: object) => mustBeUndone(interval as Parameters<typeof mustBeUndone>[0]);
  assert.equal(undone({ audits: { a: right } }), false);
  assert.equal(undone({ audits: { a: right, b: wrong } }), true);
  assert.equal(undone({ audits: { a: asked } }), false, "why is being found out");
  assert.equal(undone({ stuck: "two ends differ", audits: { a: right, b: right } }), true, "somebody else was wrong");
  assert.equal(undone({ stuck: "two ends differ", audits: { a: right, b: asked } }), false);
  assert.equal(undone({ audits: { b: wrong }, repair: { line: 0 } }), false);
});

it("a machine stays in doubt while a session may still find out", async () => {
  for (const status of ["running", "waiting", "suspended"] as const) assert.deepEqual(await cleared(status, true), []);
  assert.deepEqual(await cleared("running", false), ["p"]);
});

it("a machine does not stay in doubt for ever because a session ended before anybody found out", async () => {
  for (const status of ["done", "failed", "deleted", undefined] as const)
    assert.deepEqual(await cleared(status, true), ["p"], status);
});
