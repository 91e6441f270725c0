// PNodes that are alive but do not reach each other: one of them is left out for a while, and the session goes on.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import type { ActingPNode } from "./acting-pnode.ts";
import { Stage } from "./stage.ts";

const minute = 60_000;

async function hosting(pnodes: number): Promise<{ stage: Stage; nodes: ActingPNode[] }> {
  const stage = new Stage();
  await stage.orchestrator("o1");
  const nodes = Array.from({ length: pnodes }, (_, i) => stage.pnode(`p${i}`, { stepMs: 100 }));
  await stage.until("all attach", () => nodes.every((node) => node.attachedTo !== ""));
  await stage.session({ steps: 1_000_000n });
  await stage.until("all host something", () => nodes.every((node) => node.hosted.size > 0));
  return { stage, nodes };
}

const hostedBy = (nodes: readonly ActingPNode[]) => nodes.map((node) => node.hosted.size);

async function warningsOf(stage: Stage, pnode: string): Promise<string> {
  const { pnodes } = await stage.call(FleetService.method.listPNodes, {});
  return pnodes.find((one) => one.id === pnode)?.warnings.join() ?? "";
}

describe("PNodes that do not reach each other", () => {
  it("are separated: who is called in vain is left out for five minutes", async () => {
    const { stage, nodes } = await hosting(3);
    const [p0, p1] = nodes as [ActingPNode, ActingPNode];
    p0.unanswered = { p1: 4_000 };
    await stage.pass(10_000);
    assert.ok(p1.hosted.size > 0, "a short trouble changes nothing");
    p0.unanswered = { p1: 9_000, "nobody-knows-it": 9_000 };
    await stage.until("its VNodes go elsewhere", () => p1.hosted.size === 0, 5_000);
    p0.unanswered = {};
    assert.match(await warningsOf(stage, "p1"), /peers do not reach it/);
    const { events } = await stage.call(FleetService.method.listEvents, { kindPrefix: "pnode.unreachable" });
    assert.match(events[0]?.message ?? "", /PNodes p1 and p0 do not reach each other: what p1 hosts goes elsewhere/);
    await stage.session({ steps: 1_000_000n, seed: 2n });
    await stage.pass(4 * minute);
    assert.deepEqual(hostedBy([p1]), [0], "it gets nothing new either");
    await stage.pass(2 * minute);
    assert.equal(await warningsOf(stage, "p1"), "");
    await stage.stop();
  });

  it("are told apart: who complains about everybody is the one", async () => {
    const { stage, nodes } = await hosting(3);
    const [p0, p1, p2] = nodes as [ActingPNode, ActingPNode, ActingPNode];
    p0.unanswered = { p1: 9_000, p2: 9_000 };
    await stage.until("its own VNodes go elsewhere", () => p0.hosted.size === 0, 5_000);
    assert.ok(p1.hosted.size > 0 && p2.hosted.size > 0);
    await stage.stop();
  });

  it("leave one that does everything if there are only two, and the other steps in when that one dies", async () => {
    const { stage, nodes } = await hosting(2);
    const [p0, p1] = nodes as [ActingPNode, ActingPNode];
    p0.unanswered = { p1: 9_000 };
    p1.unanswered = { p0: 9_000 };
    await stage.until("one hosts all", () => [0, 3].every((size) => hostedBy(nodes).includes(size)), 5_000);
    await stage.pass(minute);
    assert.deepEqual(hostedBy(nodes).sort(), [0, 3], "and it stays so");
    const [lone, spare] = p0.hosted.size > 0 ? [p0, p1] : [p1, p0];
    spare.unanswered = {};
    lone.kill();
    await stage.until("the other takes over", () => spare.hosted.size === 3, 10_000);
    await stage.stop();
  });

  it("start anew when they attach again, and are left out for longer each time", async () => {
    const { stage, nodes } = await hosting(3);
    const [p0, p1] = nodes as [ActingPNode, ActingPNode];
    for (const minutes of [5, 10]) {
      p0.unanswered = { p1: 9_000 };
      await stage.until("it is left out", () => p1.hosted.size === 0, 5_000);
      p0.unanswered = {};
      await stage.pass((minutes - 1) * minute);
      assert.match(await warningsOf(stage, "p1"), /peers do not reach it/);
      await stage.pass(2 * minute);
      assert.equal(await warningsOf(stage, "p1"), "");
      await stage.session({ steps: 1_000_000n, seed: BigInt(minutes) });
      await stage.until("it has work again", () => p1.hosted.size > 0);
    }
    p0.unanswered = { p1: 9_000 };
    await stage.until("it is left out", () => p1.hosted.size === 0, 5_000);
    p0.unanswered = {};
    p1.breakStream();
    await stage.pass(3_000);
    assert.equal(await warningsOf(stage, "p1"), "");
    await stage.stop();
  });
});
