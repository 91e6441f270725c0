// Whether a PNode whose stream broke is gone: only its own machine can say so, and only where it was reached before. And one that
// answered gets work, however long the store was away when it did.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError } from "../../../core/errors.ts";
import type { PNodeId } from "../../../core/ids.ts";
import { virtualWorld } from "../../../core/virtual-world.testing.ts";
import type { Network } from "../../../protocol/network.ts";
import { withoutKey } from "../../../protocol/routes/address.ts";
import { joinRoutes } from "../../../protocol/routes/routes.ts";
import { refused } from "../../../protocol/streams/wire-errors.ts";
import type { Context } from "../../context.ts";
import { Tasks } from "../../tasks.ts";
import { type CallbackHooks, Callbacks, directly, type Verdict } from "./callbacks.ts";

const pnode = "p" as PNodeId;
const away = () => {
  throw new DcnrError("unavailable", "nothing answers", {
    cause: Object.assign(new Error(refused), { code: refused }),
  });
};
const silent = () => {
  throw new DcnrError("deadline_exceeded", "no answer in time");
};
const there = () => ({});

function isGone(machines: Readonly<Record<string, () => object>>, reached: string | undefined): Promise<boolean> {
  const record = { id: pnode, routes: joinRoutes(Object.keys(machines)), ...(reached && { reached }) };
  // Nothing here waits for real.
  const after = (_: number, run: () => void) => {
    queueMicrotask(run);
    return () => {};
  };
  const world = { timers: { after } };
  const context = { mirror: { get: () => record }, tasks: { signal: new AbortController().signal }, world };
  const network = { call: async (address: string) => machines[withoutKey(address)]?.() } as unknown as Network;
  return new Callbacks(context as unknown as Context, network, {} as CallbackHooks).isGone(pnode);
}

test("nobody listens at any of its addresses", async () => {
  assert.equal(await isGone({ "a:1": away }, directly), true);
  assert.equal(await isGone({ "a:1": away, "b:1": away }, directly), true);
});

test("it answers, or does not say anything: it may be busy, or the line is cut", async () => {
  assert.equal(await isGone({ "a:1": there }, directly), false);
  assert.equal(await isGone({ "a:1": silent }, directly), false);
  assert.equal(await isGone({ "a:1": away, "b:1": silent }, directly), false);
});

/** A process that ends: its connections break first, then nobody listens. */
function ending(breaks: number): () => object {
  let calls = 0;
  return () => {
    if (calls++ >= breaks) return away();
    throw new DcnrError("unavailable", "the connection broke");
  };
}

test("a call that broke is made again: whoever is ending refuses the next one", async () => {
  assert.equal(await isGone({ "a:1": ending(1) }, directly), true);
  assert.equal(await isGone({ "a:1": ending(3) }, directly), true);
  assert.equal(await isGone({ "a:1": ending(1_000) }, directly), false, "and nobody calls for ever");
  let calls = 0;
  const back = () => (calls++ === 0 ? ending(1)() : there());
  assert.equal(await isGone({ "a:1": back }, directly), false, "one whose new connection is answered is there");
});

test("whoever refuses at the address of one that was never reached there is somebody else", async () => {
  assert.equal(await isGone({ "192.168.0.9:1": away }, "by relay hub"), false);
  assert.equal(await isGone({ "192.168.0.9:1": away }, undefined), false);
  assert.equal(await isGone({}, directly), false);
});

test("what came of a callback is noted once the store is back", async () => {
  const { world, until } = virtualWorld();
  const tasks = new Tasks(world);
  let record: object = { id: pnode, attachment: "n", routes: joinRoutes(["a:1"]), name: "p" };
  let failures = 3;
  const mirror = {
    get: () => record,
    update: async (_: unknown, change: (current: object) => object | undefined) => {
      if (failures-- > 0) throw new DcnrError("unavailable", "the store is away");
      const changed = change(record);
      record = changed ?? record;
      return { written: changed !== undefined, record };
    },
  };
  const told: string[] = [];
  const hooks = { isHere: () => true, tell: (_: PNodeId, { how }: Verdict) => told.push(how), onFleetChange: () => {} };
  const context = { mirror, tasks, world, events: { emit: () => {} } };
  const network = { call: async () => ({}) } as unknown as Network;
  new Callbacks(context as unknown as Context, network, hooks as unknown as CallbackHooks).begin(pnode);
  await until(() => told.length > 0);
  assert.deepEqual([(record as { reached?: string }).reached, told, failures], [directly, [directly], -1]);
  await tasks.stop();
});
