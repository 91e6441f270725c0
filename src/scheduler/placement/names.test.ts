import assert from "node:assert/strict";
import { test } from "node:test";
import { node, seeded } from "../placement.testing.ts";
import { Fleet } from "./fleet.ts";
import { namesOf } from "./names.ts";
import type { FleetNode } from "./types.ts";

/** By looking at all of them. */
function shared(nodes: Iterable<FleetNode>): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const one of nodes)
    if (one.newcomer) for (const name of namesOf(one)) sizes.set(name, (sizes.get(name) ?? 0) + 1);
  return new Map([...sizes].filter(([, size]) => size > 1));
}

const inOrder = (sizes: ReadonlyMap<string, number>) => [...sizes].sort();

test("names that several newcomers share are right whatever machines come, change, prove themselves and go", () => {
  const chance = seeded(3);
  const fleet = new Fleet();
  for (let turn = 0; turn < 2_000; turn++) {
    const id = `p${Math.floor(chance() * 30)}`;
    const [owner, network] = [`o${Math.floor(chance() * 12)}`, `n${Math.floor(chance() * 9)}`];
    const named = { owner: chance() < 0.2 ? "" : owner, ...(chance() < 0.5 && { network }) };
    if (chance() < 0.2) fleet.delete(id as never);
    else fleet.set(node(id, { ...named, newcomer: chance() < 0.6, memoryFreeBytes: 1 + Math.floor(chance() * 4) }));
    const of = turn % 100 === 0 ? fleet.copy() : fleet;
    assert.deepEqual(inOrder(of.namesOf("newcomers")), inOrder(shared(fleet.nodes())), `turn ${turn}`);
  }
});
