import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Attachment } from "../fleet/attached/attachment.ts";
import { Circles, findCircle } from "./circles.ts";

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
    const told: string[] = [];
    const context = { events: { emit: (_: string, kind: string) => told.push(kind) } } as unknown as Context;
    const attachment = (vnode: string, waitsFor: string[], waitedMs: number, phase = "waiting") => {
      const progress = new Map([[vnode, { session: "s", vnode, phase, waitsFor, waitedMs }]]);
      return { status: "online", progress } as unknown as Attachment;
    };
    const fleet = new Map<PNodeId, Attachment>();
    const circles = new Circles(context, fleet);
    const set = (pnode: string, one: Attachment) => fleet.set(pnode as PNodeId, one);
    set("1", attachment("a", ["b"], 12_000));
    set("2", attachment("b", ["a"], 3_000));
    circles.look();
    assert.deepEqual(told, []);
    set("2", attachment("b", ["a"], 11_000));
    set("3", attachment("b", [], 0, "computing"));
    circles.look();
    assert.deepEqual(told, [], "a replica of b computes");
    fleet.delete("3" as PNodeId);
    circles.look();
    circles.look();
    assert.deepEqual(told, ["session.circle"]);
    set("2", attachment("b", [], 0, "computing"));
    circles.look();
    set("2", attachment("b", ["a"], 11_000));
    circles.look();
    assert.equal(told.length, 2, "another one is told of again");
  });
});
