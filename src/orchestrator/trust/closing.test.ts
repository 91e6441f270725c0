import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId, SessionId } from "../../core/ids.ts";
import { openMemoryStore } from "../../store/memory.ts";
import { realWorld } from "../../system/world.ts";
import type { Context } from "../context.ts";
import type { AuditRecord, IntervalRecord } from "../records/checking.ts";
import { Mirror } from "../records/mirror.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { Closing, type ClosingNeeds, earnedIn } from "./closing.ts";

it("a machine earns trust by what was not drawn, and none by what was drawn and nobody repeated", () => {
  const [alone, other] = ["alone", "other"] as PNodeId[] as [PNodeId, PNodeId];
  const audit = (kind: "right" | "unchecked"): AuditRecord => ({
    ...{ stated: [], tasks: [], ready: true, accused: [] },
    outcome: { kind, by: kind === "right" ? "strangers" : "nobody", reason: "", result: "", wallMs: 0 },
  });
  const owners = { a: alone, b: alone, c: other, d: other, e: other };
  const audits = { a: audit("unchecked"), b: audit("unchecked"), c: audit("right") };
  assert.deepEqual([...earnedIn({ owners, audits })], [[other, 2]]);
});

it("what a machine checked wrongly is kept when the interval is final, so that anybody can repeat it", async () => {
  const id = "s" as SessionId;
  const world = realWorld({ logFormat: "none" });
  const mirror = new Mirror(openMemoryStore(), world);
  const session = {
    ...{ id, status: "running", line: 4, lineBefore: 2, final: 0, turn: 0, vnodes: ["a", "b"], drawn: [] },
    ...{ identity: { steps: 4 }, policy: { assurance: "checked", checkpointEvery: 2 } },
  } as unknown as SessionRecord;
  const right = { ...{ stated: [], tasks: [], ready: true, accused: [] }, outcome: { kind: "right", by: "strangers" } };
  const accused = [{ pnode: "checker", of: "audit", result: "x", after: "", verdict: "lie", told: true }];
  const interval = (to: number, audits: object) =>
    ({ session: id, from: to - 2, to, turn: 0, statements: "", owners: {}, audits }) as unknown as IntervalRecord;
  await mirror.update(key.session(id), () => session);
  await mirror.update(key.interval(id, 2), () => interval(2, { a: right, b: { ...right, accused } }));
  await mirror.update(key.interval(id, 4), () => interval(4, { a: right, b: right }));
  const needs = {
    ...{ garbage: { add: () => {} }, locker: { empty: () => [] } },
    ...{ ledger: { payAudits: async () => {} }, standings: { change: async () => {} } },
  } as unknown as ClosingNeeds;
  await new Closing({ mirror, world, events: { emit: () => {} } } as unknown as Context, needs).finish(id);
  assert.deepEqual(mirror.under(prefix.intervalsOf(id)), []);
  const kept = mirror.under(prefix.convictionsOf(id));
  assert.deepEqual(
    kept.map(({ to, audits }) => [to, Object.keys(audits)]),
    [[2, ["b"]]],
  );
});
