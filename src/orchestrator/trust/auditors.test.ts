import assert from "node:assert/strict";
import { it } from "node:test";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { ReplicaRecord, SessionRecord } from "../records/sessions.ts";
import { prefix } from "../records/store-keys.ts";
import { type AuditorNeeds, Auditors } from "./auditors.ts";
import { standingAtFirst } from "./standing.ts";

it("those with the least to do come first, and all audits are looked through once, however many machines there are", () => {
  const facts = { numerics: [{ engine: "e", class: "c" }] };
  const pnodes = Array.from({ length: 50 }, (_, at) => ({ id: `p${at}`, status: "online", bits: 1, owner: "", facts }));
  const tasks = pnodes.slice(1).map(({ id }) => ({ pnode: id, role: "audit" }));
  let looks = 0;
  const under = (name: unknown) => {
    if (name !== prefix.intervals) return pnodes;
    looks++;
    return [{ audits: { a: { tasks } } }];
  };
  const auditors = new Auditors(
    { mirror: { under, get: () => undefined } } as unknown as Context,
    {
      capacity: { fleet: { get: () => ({ memoryFreeBytes: 1 }) }, vnodesOn: () => new Set() },
      compiled: { neighbours: () => new Map() },
      standings: { of: (pnode: PNodeId) => standingAtFirst(pnode) },
    } as unknown as AuditorNeeds,
  );
  const session = { id: "s", identity: { bits: 1, numerics: "e" }, numericsClass: "c", vnodes: [] };
  const found = auditors.candidates(session as unknown as SessionRecord, ["a" as VNodeId], "d", new Set(), false);
  assert.deepEqual([found.length, found[0]?.pnode, looks], [50, "p0", 1]);
});

it("may come back who was lost a moment ago and could repeat an answer: of the class, of another owner, and not sent away", () => {
  const facts = { numerics: [{ engine: "e", class: "c" }] };
  const replica = { id: "m@1", identity: { bits: 3, numerics: "e" }, numericsClass: "c", vnodes: [] };
  const of = (id: string, more: object) => ({ id, status: "lost", answerBits: 3, owner: id, facts, ...more });
  const mayReturn = (more: object) => {
    const records = [of("own", { status: "online" }), of("p", more)];
    const auditors = new Auditors(
      {
        mirror: { under: () => records, get: (name: unknown) => records.find(({ id }) => String(name).endsWith(id)) },
      } as unknown as Context,
      { standings: { of: (pnode: PNodeId) => standingAtFirst(pnode) } } as unknown as AuditorNeeds,
    );
    const wasHere = (pnode: PNodeId) => (pnode as string) === "p";
    return auditors.mayReturnFor(replica as unknown as ReplicaRecord, new Set(["own" as PNodeId]), wasHere);
  };
  assert.equal(mayReturn({}), true);
  for (const never of [
    { id: "q" },
    { status: "left" },
    { owner: "own" },
    { answerBits: 2 },
    { barred: { kind: "quarantined" } },
    { drained: true },
  ])
    assert.equal(mayReturn(never), false, JSON.stringify(never));
});
