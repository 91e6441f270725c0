import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { Bandwidth } from "../../core/bandwidth.ts";
import { hashOfContent } from "../../core/hash.ts";
import type { ReplicaId } from "../../core/ids.ts";
import { Tasks } from "../../core/tasks.ts";
import { virtualWorld } from "../../core/virtual-world.testing.ts";
import { silentLog } from "../../core/world.ts";
import { Links } from "../../peer/links.ts";
import { peerService } from "../../peer/receiving.ts";
import { Refusals } from "../../peer/refusals.ts";
import type { Content } from "../../peer/travel-types.ts";
import { AskOutcome } from "../../protocol/gen/dcnr/v1/exchange_pb.ts";
import { MemoryNetwork } from "../../protocol/memory-network.testing.ts";
import type { Routes } from "../../protocol/routes/routes.ts";
import type { Resolver } from "../resolver.ts";
import type { LostPass, Pass } from "./pass.ts";
import { Passes } from "./passes.ts";
import type { ServingVNode } from "./serving-vnode.ts";
import { WaitingPasses } from "./waiting-passes.ts";

const target = { session: "s", vnode: "b", port: "x" };
const pass: Pass = {
  ...{ id: 1, conductor: "p1", epoch: 1, attempt: 0, plain: false, dropped: [] },
  rows: [{ request: "r", position: 0, tokens: 1, logits: 1 }],
};
const tensor: Content = { dtype: "float32", shape: [1, 1, 4], bytes: new Uint8Array(16) };

/** VNode `b` on p2 takes [1, 1, 4] floats from `a`; what p1 sends goes there. */
async function scene({ owns = true, loading = false, vnode = "b", headEpoch = 1 } = {}) {
  const { world, until } = virtualWorld();
  const network = new MemoryNetwork();
  const accepted: { id: number; content: Content }[] = [];
  const lost: LostPass[] = [];
  let refreshed = 0;
  const waiting = new WaitingPasses();
  const host = {
    waiting,
    expects: () => (loading ? undefined : { dtype: "float32", shape: [1, 1, 4], from: "a", head: "h" }),
    accept: (_port: string, { id }: Pass, content: Content) => accepted.push({ id, content }),
  } as unknown as ServingVNode;
  const resolver = {
    locate: (_session: string, name: string) =>
      name === "h"
        ? [{ epoch: headEpoch, pnode: "p1", routes: "p1" as Routes, replica: 0 }]
        : [{ epoch: 1, pnode: "p2", routes: "p2" as Routes, replica: 0 }],
    refresh: () => refreshed++,
    ownsAny: () => owns,
  } as unknown as Resolver;
  const { signal } = new AbortController();
  const tasks = new Tasks(silentLog);
  const timings = { retryMinMs: 50, retryMaxMs: 2_000, resendMs: 2_000 };
  const bandwidth = new Bandwidth(world, 0);
  const linksOf = (pnode: string) =>
    new Links({ network: network.as(pnode), world, timings, tasks, bandwidth, signal });
  const passesOf = (pnode: string) =>
    new Passes({
      ...{ pnode, links: linksOf(pnode), resolver, tasks, log: silentLog },
      find: (_session, name) => (pnode === "p2" && name === vnode ? host : undefined),
      onLost: (each) => lost.push(each),
      head: async (_replica: ReplicaId) => "a",
    });
  const receiving = passesOf("p2");
  const served = peerService({
    exchange: { expects: () => assert.fail("nothing is trained here") },
    passes: receiving,
    onAsk: (_ask, _peer, answer) => answer(AskOutcome.MOVED),
    onLost: (each, peer) => receiving.heard(each, peer),
    ownership: () => (owns ? "owner" : "other"),
    hashOf: hashOfContent,
    refusals: new Refusals({ clock: world.clock, log: silentLog }),
    log: silentLog,
  });
  await network.serve("p2", [served]);
  return {
    passes: passesOf("p1"),
    accepted,
    lost,
    until,
    network,
    linksOf,
    other: passesOf("p1"),
    waiting,
    refreshed: () => refreshed,
  };
}

const sender = { vnode: "a", epoch: 1 };

describe("passes between PNodes", () => {
  it("bring a tensor to the VNode that takes it", async () => {
    const { passes, accepted, lost, until } = await scene();
    passes.send(sender, target, pass, tensor);
    await until(() => accepted.length === 1);
    assert.deepEqual(accepted, [{ id: 1, content: tensor }]);
    assert.deepEqual(lost, []);
  });

  it("tell the conductor what was refused, is still loading or has moved, so that it repeats", async () => {
    const wrong: [Parameters<typeof scene>[0], Content, string][] = [
      [{}, { ...tensor, shape: [1, 2, 2] }, "a"],
      [{}, { ...tensor, dtype: "int32" }, "a"],
      [{}, tensor, "somebody else"],
      [{}, { ...tensor, bytes: new Uint8Array(new Float32Array(4).fill(Number.NaN).buffer) }, "a"],
      [{ owns: false }, tensor, "a"],
      [{ loading: true }, tensor, "a"],
      [{ vnode: "c" }, tensor, "a"],
    ];
    for (const [options, content, from] of wrong) {
      const { passes, accepted, lost, until } = await scene(options);
      passes.send({ vnode: from, epoch: 1 }, target, pass, content);
      await until(() => lost.length > 0);
      assert.deepEqual(lost, [{ session: "s", pass, failure: "" }]);
      assert.deepEqual(accepted, []);
    }
  });

  it("are taken from the head's owner alone, whoever hands them on, and whoever it is not is looked up", async () => {
    for (const made of [{ epoch: 2 ** 53 }, { epoch: 0 }, { conductor: "p3" }]) {
      const { passes, other, accepted, until, refreshed } = await scene();
      other.send(sender, target, { ...pass, ...made, id: 9 }, tensor);
      await until(() => accepted.length + refreshed() > 0);
      passes.send(sender, target, pass, tensor);
      await until(() => accepted.some(({ id }) => id === 1));
      assert.deepEqual(
        accepted.map(({ id }) => id),
        [1],
        JSON.stringify(made),
      );
    }
    const { passes, accepted, lost, until } = await scene({ headEpoch: 2 });
    passes.send(sender, target, pass, tensor);
    await until(() => lost.length > 0);
    assert.deepEqual(accepted, []);
  });

  it("wait where as many do as their VNode takes, and what came and was taken counts no more", async () => {
    const { passes, accepted, lost, until, waiting } = await scene();
    for (let sent = 1; sent <= 3; sent++) passes.send(sender, target, { ...pass, id: sent }, tensor);
    await until(() => accepted.length === 3);
    const limit = 256 << 20;
    waiting.take(limit - 16);
    passes.send(sender, target, { ...pass, id: 4 }, tensor);
    await until(() => accepted.length === 4);
    waiting.take(1);
    passes.send(sender, target, { ...pass, id: 5 }, tensor);
    await until(() => lost.length > 0);
    assert.deepEqual([accepted.length, lost.map(({ pass: { id } }) => id)], [4, [5]]);
  });

  it("tell the conductor when nobody answers", async () => {
    const { passes, lost, until, network } = await scene();
    network.kill("p2");
    passes.send(sender, target, pass, tensor);
    await until(() => lost.length > 0);
    assert.equal(lost.length, 1);
  });

  it("of an earlier turn are not sent any more once a later one began", async () => {
    const { passes, accepted, lost, until } = await scene();
    // The first is under way at once, the second waits.
    passes.send(sender, target, pass, tensor);
    passes.send(sender, target, { ...pass, id: 2 }, tensor);
    passes.send(sender, target, { ...pass, id: 3, attempt: 1 }, tensor);
    await until(() => accepted.length === 2);
    assert.deepEqual(
      accepted.map(({ id }) => id),
      [1, 3],
    );
    assert.deepEqual(lost, []);
  });

  it("are reported lost only by those who take part", async () => {
    for (const owns of [true, false]) {
      const { lost, until, linksOf } = await scene({ owns });
      const link = linksOf("p3").to({ routes: "p2" as Routes, pnode: "p2" });
      const proto = { id: 7n, conductor: "p2", rows: [], epoch: 1n, attempt: 3 };
      link.note({ session: "s", pass: proto, failure: "x".repeat(5_000) });
      link.note({ session: "s", pass: proto, failure: "last" });
      let answered = false;
      link.ask({ to: "", from: "", names: [] }, () => {
        answered = true;
      });
      await until(() => answered);
      assert.deepEqual(
        lost.map(({ failure }) => failure.length),
        owns ? [1_000, 4] : [],
      );
    }
  });
});
