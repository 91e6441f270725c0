import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Attachment, Progress } from "../fleet/attached/attachment.ts";
import { key } from "../records/store-keys.ts";
import { Circles, findCircle } from "./circles.ts";

type FakeAttachment = Pick<Attachment, "status" | "progress" | "tellCircle">;
const session = "s" as SessionId;

function waitsOf(edges: Record<string, string[]>): Map<VNodeId, VNodeId[]> {
  return new Map(Object.entries(edges) as [VNodeId, VNodeId[]][]);
}

/** Whether anybody can come back to himself, by trying all ways. */
function hasCircle(edges: Record<string, string[]>): boolean {
  const names = Object.keys(edges);
  const reach = new Map(names.map((name) => [name, new Set(edges[name])]));
  for (const via of names)
    for (const from of names)
      if (reach.get(from)?.has(via)) for (const to of reach.get(via) ?? []) reach.get(from)?.add(to);
  return names.some((name) => reach.get(name)?.has(name));
}

describe("circles of waiting VNodes", () => {
  it("are found in exactly those networks that have one, and closed", () => {
    const names = ["a", "b", "c", "d"];
    // All 4,096 ways in which four VNodes can wait for each other.
    for (let bits = 0; bits < 1 << 12; bits++) {
      let bit = 0;
      const edges: Record<string, string[]> = {};
      for (const from of names) edges[from] = names.filter((to) => to !== from && ((bits >> bit++) & 1) === 1);
      const circle = findCircle(waitsOf(edges));
      assert.equal(circle !== undefined, hasCircle(edges));
      circle?.forEach((vnode, index) => {
        assert.ok(edges[vnode]?.includes(circle[(index + 1) % circle.length] as string));
      });
    }
  });

  it("end where somebody does not wait", () => {
    assert.equal(findCircle(waitsOf({ a: ["b"], b: ["c"] })), undefined);
  });

  it("are told of once, when they are older than usual and every owner waits", () => {
    const { told, say, look } = scene({ a: ["1"], b: ["2", "3"] });
    const waits = (pnode: string, vnode: string, whom: string, waitedMs: number) =>
      say("o", pnode, vnode, { phase: "waiting", waitsFor: [whom], waitedMs });
    const computes = (pnode: string, vnode: string) => say("o", pnode, vnode, { phase: "computing" });
    waits("1", "a", "b", 12_000);
    waits("2", "b", "a", 3_000);
    waits("3", "b", "a", 11_000);
    look();
    assert.deepEqual(told, []);
    waits("2", "b", "a", 11_000);
    computes("3", "b");
    look();
    assert.deepEqual(told, [], "a replica of b computes");
    waits("3", "b", "a", 11_000);
    look();
    look();
    assert.deepEqual(told, ["o"]);
    computes("2", "b");
    look();
    waits("2", "b", "a", 11_000);
    look();
    assert.deepEqual(told, ["o", "o"], "another one is told of again");
  });

  it("are broken where they hang, by whichever orchestrators have the machines, and after a while again", () => {
    const { told, broken, say, doubt, look, pass } = scene({ a: ["1"], b: ["2"], c: ["3"] });
    const waits = (orchestrator: string, pnode: string, vnode: string, whom: string) =>
      say(orchestrator, pnode, vnode, { phase: "waiting", waitsFor: [whom], waitedMs: 11_000 });
    waits("o", "1", "a", "b");
    waits("other", "2", "b", "c");
    waits("third", "3", "c", "a");
    doubt("3", true);
    look();
    assert.deepEqual(broken, [], "one of the machines may be gone");
    doubt("3", false);
    look();
    assert.deepEqual(broken, ["o: 1 a b c", "other: 2 a b c", "third: 3 a b c"]);
    assert.deepEqual(told, ["o"], "people are told by one of them");
    broken.length = 0;
    look();
    assert.deepEqual(broken, [], "what is asked for again takes its time");
    pass(30_000);
    look();
    assert.equal(broken.length, 3);
    assert.deepEqual(told, ["o"]);
  });
});

/** A session whose VNodes have these owners, seen by orchestrators that tell each other what their machines say. */
function scene(owners: Record<string, string[]>) {
  let nowMs = 0;
  const told: string[] = [];
  const broken: string[] = [];
  const doubted = new Set<string>();
  const progress = new Map<string, Progress>();
  const mirror = {
    get: (name: string) => {
      if (name === key.session(session)) return { id: session, status: "running", vnodes: Object.keys(owners) };
      const vnode = Object.keys(owners).find((one) => name === key.vnode(session, one as VNodeId));
      return vnode && { members: owners[vnode]?.map((pnode) => ({ pnode })) };
    },
  };
  const heard = {
    progress: (pnode: PNodeId, _session: string, vnode: string) => progress.get(`${pnode} ${vnode}`),
    doubt: (pnode: PNodeId) => (doubted.has(pnode) ? {} : undefined),
  };
  const orchestrators = new Map<string, { circles: Circles; attachments: Map<PNodeId, FakeAttachment> }>();
  const orchestrator = (id: string) => {
    const known = orchestrators.get(id);
    if (known) return known;
    const attachments = new Map<PNodeId, FakeAttachment>();
    const events = { emit: () => told.push(id) };
    const world = { clock: { monotonicMs: () => nowMs } };
    const made = {
      attachments,
      circles: new Circles({ events, mirror, world } as unknown as Context, { attachments, heard }),
    };
    orchestrators.set(id, made);
    return made;
  };
  const say = (id: string, pnode: string, vnode: string, said: Partial<Progress>) => {
    const one = { session, vnode, waitsFor: [], waitedMs: 0, ...said } as unknown as Progress;
    progress.set(`${pnode} ${vnode}`, one);
    orchestrator(id).attachments.set(pnode as PNodeId, {
      status: "online",
      progress: new Map([[vnode, one]]),
      tellCircle: (_session, vnodes) => void broken.push(`${id}: ${pnode} ${vnodes.join(" ")}`),
    });
  };
  return {
    ...{ told, broken, say },
    doubt: (pnode: string, isDoubted: boolean) => (isDoubted ? doubted.add(pnode) : doubted.delete(pnode)),
    look: () => {
      for (const { circles } of orchestrators.values()) circles.look();
    },
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}
