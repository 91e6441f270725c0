import { strict as assert } from "node:assert";
import { it } from "node:test";
import type { PNodeId } from "../../core/ids.ts";
import { resultOf } from "../../trust/statement.ts";
import type { Context } from "../context.ts";
import type { StandingRecord } from "../records/checking.ts";
import type { SessionStatus } from "../records/sessions.ts";
import { standingAtFirst } from "./standing.ts";
import type { Standings } from "./standings.ts";
import { atOdds, mustBeUndone, Verdicts } from "./verdicts.ts";

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

it("two who contradict each other again at the same line lose their part, though nobody can tell which of them is wrong", () => {
  const audit = (pnode: string, more: object = {}) => ({
    ...{ stated: [{ pnode }], outcome: { kind: "right" }, accused: [] },
    ...more,
  });
  const lapsed = (session: object, audits: object, stuck: string | undefined = "two ends differ") =>
    atOdds(session as never, { stuck, audits } as never).map(({ pnode, vnode }) => `${vnode} at ${pnode}`);
  const both = { a: audit("p"), b: audit("q") };
  assert.deepEqual(lapsed({ line: 4 }, both), [], "whoever erred once computes it again");
  assert.deepEqual(lapsed({ line: 6, turnLine: 4 }, both), [], "the session has come further since");
  assert.deepEqual(lapsed({ line: 4, turnLine: 4 }, both), ["a at p", "b at q"]);
  assert.deepEqual(lapsed({ line: 4, turnLine: 4 }, { ...both, a: audit("p", { accused: [{ verdict: "lie" }] }) }), []);
  const withheld = audit("p", { outcome: { kind: "lost", lapses: [{ pnode: "x", vnode: "c" }] } });
  assert.deepEqual(lapsed({ line: 4, turnLine: 4 }, { ...both, a: withheld }), [], "others have not stored it");
});

it("a machine stays in doubt while a session may still find out", async () => {
  for (const status of ["running", "waiting", "suspended"] as const) assert.deepEqual(await cleared(status, true), []);
  assert.deepEqual(await cleared("running", false), ["p"]);
});

it("a machine does not stay in doubt for ever because a session ended before anybody found out", async () => {
  for (const status of ["done", "failed", "deleted", undefined] as const)
    assert.deepEqual(await cleared(status, true), ["p"], status);
});

it("a machine's last check says who repeated its work and came to the same", async () => {
  const stories: (string | undefined)[] = [];
  const standings = {
    change: async (pnode: string, change: (standing: StandingRecord) => StandingRecord | undefined) => {
      if (pnode === "owner") stories.push(change(standingAtFirst(pnode as PNodeId))?.last?.story);
    },
  } as unknown as Standings;
  const mirror = { get: (name: string) => ({ name: `the ${name.split("/")[1]}` }) };
  const context = { mirror, world: { clock: { wallMs: () => 0 } } } as unknown as Context;
  const statement = { after: "right", outputs: "", edges: {} } as never;
  const result = resultOf(statement);
  const tasks = [
    { pnode: "maple", role: "audit", result },
    { pnode: "birch", role: "audit", result },
    { pnode: "oak", role: "audit", result: "another" },
    { pnode: "elm", role: "measure", result },
  ];
  const before = { stated: [{ pnode: "owner", turn: 0, statement }], tasks, ready: true, accused: [] };
  const after = { ...before, outcome: { kind: "right", by: "strangers", reason: "", result, wallMs: 0 } };
  const verdicts = new Verdicts(context, standings);
  await verdicts.announce({ id: "s" } as never, { from: 0, to: 2 } as never, "a", before as never, after as never);
  assert.match(stories[0] ?? "", /: right, recomputed by strangers \(the maple, the birch\)$/);
});
