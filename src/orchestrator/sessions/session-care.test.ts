import assert from "node:assert/strict";
import { it } from "node:test";
import type { SessionId } from "../../core/ids.ts";
import { openMemoryStore } from "../../store/memory.ts";
import type { StateStore } from "../../store/records/state-store.ts";
import { realWorld } from "../../system/world.ts";
import type { Context } from "../context.ts";
import type { IntervalRecord } from "../records/checking.ts";
import { Mirror } from "../records/mirror.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { TrustCare, type TrustNeeds } from "../trust/trust-care.ts";
import { SessionCare, type SessionCareNeeds } from "./session-care.ts";

it("nothing is left of a session that is erased, though an auditor tells at that moment what it found", async () => {
  const id = "s" as SessionId;
  const inner = openMemoryStore();
  const world = realWorld({ logFormat: "none" });
  const other = new Mirror(inner, world);
  const interval = { session: id, from: 0, to: 2, turn: 0, audits: {} } as unknown as IntervalRecord;
  await other.update(key.interval(id, 2), () => interval);
  let tells: (() => Promise<unknown>) | undefined = () =>
    other.update(key.interval(id, 2), (current) => current && { ...current, root: "found" });
  const store: StateStore = {
    get: (name) => inner.get(name),
    put: (name, value, expected) => inner.put(name, value, expected),
    list: (prefix, options) => inner.list(prefix, options),
    watch: (prefix, listener) => inner.watch(prefix, listener),
    close: () => inner.close(),
    delete: async (name, expected) => {
      const now = tells;
      tells = undefined;
      await now?.();
      return inner.delete(name, expected);
    },
  };
  const context = { mirror: new Mirror(store, world), world } as unknown as Context;
  await new SessionCare(context, {} as SessionCareNeeds).erase({ id } as SessionRecord);
  assert.equal(await inner.get(key.interval(id, 2)), undefined);
});

it("a session whose time is over ends once it is known who lied: with its end all pay vests", async () => {
  const id = "s" as SessionId;
  const world = realWorld({ logFormat: "none" });
  const context = {
    mirror: new Mirror(openMemoryStore(), world),
    world,
    events: { emit: () => {} },
  } as unknown as Context;
  const session = {
    ...{ id, status: "running", line: 0, ranMs: 2_000, vnodes: [], requirements: { maxRuntimeSeconds: 1 } },
    policy: { assurance: "checked" },
  } as unknown as SessionRecord;
  const accused = { pnode: "p", of: "statement", result: "", after: "" };
  const audit = { stated: [], tasks: [], ready: true, outcome: { kind: "wrong" }, accused: [accused] };
  const interval = { session: id, from: 0, to: 2, turn: 0, owners: {}, audits: { a: audit } };
  await context.mirror.update(key.session(id), () => session);
  await context.mirror.update(key.interval(id, 2), () => interval as unknown as IntervalRecord);
  const isFindingOut = () => new TrustCare(context, {} as TrustNeeds).isFindingOut(id);
  const needs = {
    ...{ trust: { tend: async () => {}, isFindingOut }, rounds: { tend: async () => {} } },
    ...{ ledger: { request: () => {} }, budgets: { exhausted: () => undefined } },
  } as unknown as SessionCareNeeds;
  const care = new SessionCare(context, needs);
  const status = async () => {
    await care.tend(session);
    return (await context.mirror.read(key.session(id)))?.status;
  };
  assert.equal(await status(), "running");
  const told = { ...audit, accused: [{ ...accused, verdict: "lie", told: true }] };
  await context.mirror.update(key.interval(id, 2), () => ({ ...interval, audits: { a: told } }) as never);
  assert.equal(await status(), "running", "it has still to go back");
  await context.mirror.remove(key.interval(id, 2));
  assert.equal(await status(), "done");
});
