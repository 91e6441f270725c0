// Fusion on random graphs: whatever groups a definition names, the VNodes form no cycle and compute the same
// numbers as the nodes one by one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../core/hash.ts";
import { permutationAt, randomKey, randomUint32 } from "../core/numbers/random.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { compile, compileText } from "./compile.ts";
import { parseDefinition } from "./definition.ts";
import { LocalTrainer, randomSample } from "./graphs/trainer.testing.ts";
import type { Plan } from "./plan.ts";

/** A random network over [3] with a random grouping; text order is shuffled too. */
function randomNetwork(seed: number): string {
  const key = randomKey("fuse test", seed);
  let draws = 0;
  const below = (count: number) => randomUint32(key, draws++) % count;
  const count = 4 + below(10);
  const groups = 1 + below(4);
  const nodes: string[] = [];
  const edges: string[] = [];
  for (let i = 0; i < count; i++) {
    const group = below(3) === 0 ? "" : `, colocate_group: g${below(groups)}`;
    const types = i < 2 ? ["linear"] : ["linear", "tanh", "add", "add"];
    const type = types[below(types.length)]!;
    const config = type === "linear" ? "out_dim: 3" : "dim: 3";
    const shape = i === 0 ? ", input_shapes: [[3]]" : "";
    nodes.push(`{ id: n${i}, type: ${type}, config: { ${config}${group} }${shape} }`);
    if (i > 0) edges.push(`{ from: n${below(i)}, to: n${i} }`);
    if (type === "add") edges.push(`{ from: n${below(i)}, to: n${i}, to_slot: 1 }`);
  }
  // Whatever nobody uses is judged, so that everything learns.
  const used = new Set(edges.map((edge) => /from: (n\d+)/.exec(edge)![1]!));
  const ends = nodes.map((_, i) => `n${i}`).filter((id) => !used.has(id));
  for (const end of ends) {
    const group = below(3) === 0 ? `, colocate_group: g${below(groups)}` : "";
    nodes.push(`{ id: loss_${end}, type: cost, config: { cost_function: mse${group} } }`);
    edges.push(`{ from: ${end}, to: loss_${end} }`);
  }
  const shuffled = nodes.map((_, i) => nodes[permutationAt(key, i, nodes.length)]!);
  return `nodes:\n  - ${shuffled.join("\n  - ")}\nedges:\n  - ${edges.join("\n  - ")}\n`;
}

test("fused VNodes form no cycle, hold every node once, and feed one edge from each port", () => {
  for (let seed = 0; seed < 300; seed++) {
    const text = randomNetwork(seed);
    const plan = compileText(text);
    const position = new Map(plan.order.map((id, index) => [id, index]));
    assertAcyclic(plan, seed);
    for (const { from, to, id } of plan.edges)
      assert.ok(position.get(from)! < position.get(to)!, `seed ${seed}: ${id} flows forward in the plan's order`);
    assert.equal(position.size, plan.vnodes.length);
    const nodes = plan.vnodes.flatMap((vnode) => vnode.nodes);
    assert.equal(new Set(nodes).size, nodes.length, `seed ${seed}: no node is in two VNodes`);
    assert.equal(nodes.length, parseDefinition(text).nodes.length);
    const ports = plan.edges.map((edge) => `${edge.from} ${edge.fromPort}`);
    assert.equal(new Set(ports).size, ports.length, `seed ${seed}: a port feeds one edge`);
    assert.deepEqual(
      [...plan.vnodes.map(({ id }) => id)].sort(),
      plan.vnodes.map(({ id }) => id),
    );
  }
});

function assertAcyclic(plan: Plan, seed: number): void {
  const waiting = new Set<string>(plan.vnodes.map(({ id }) => id));
  for (;;) {
    const ready = [...waiting].filter((id) => !plan.edges.some((edge) => edge.to === id && waiting.has(edge.from)));
    for (const id of ready) waiting.delete(id);
    if (ready.length === 0) break;
  }
  assert.equal(waiting.size, 0, `seed ${seed}: VNodes ${[...waiting].join(", ")} wait for each other`);
}

test("a fused network computes the losses and gradients of its nodes one by one", async () => {
  const engine = openReferenceEngine();
  for (let seed = 0; seed < 40; seed++) {
    const definition = parseDefinition(randomNetwork(seed));
    const results = [];
    for (const fuse of [true, false]) {
      const plan = compile(definition, sha256(""), { fuse });
      const trainer = await LocalTrainer.open({ engine, plan, microbatch: 2 });
      const sample = [randomSample(plan, 2, seed)];
      results.push({ loss: await trainer.differentiate(sample), gradients: trainer.gradients });
    }
    const [fused, single] = results as [(typeof results)[0], (typeof results)[0]];
    assert.ok(
      Math.abs(fused.loss - single.loss) < 1e-5 * (1 + single.loss),
      `seed ${seed}: ${fused.loss}, ${single.loss}`,
    );
    for (const [name, expected] of single.gradients)
      for (const [i, value] of expected.entries())
        assert.ok(Math.abs(value - fused.gradients.get(name)![i]!) < 1e-4, `seed ${seed}: gradient of ${name}[${i}]`);
  }
});

const chain = (groups: readonly string[]) =>
  `nodes:\n${groups.map((group, i) => `  - { id: n${i}, type: linear, config: { in_dim: 2, out_dim: 2${group === "" ? "" : `, colocate_group: ${group}`} } }`).join("\n")}\nedges: [${groups
    .slice(1)
    .map((_, i) => `{ from: n${i}, to: n${i + 1} }`)
    .join(", ")}]`;

test("a connected, convex group becomes one VNode with the group's name", () => {
  const plan = compileText(chain(["", "g", "g", ""]));
  assert.deepEqual(
    plan.vnodes.map(({ id, nodes }) => [id, nodes.join()]),
    [
      ["g", "n1,n2"],
      ["n0", "n0"],
      ["n3", "n3"],
    ],
  );
  assert.deepEqual(plan.colocations, []);
});

test("a group with a foreign node inside its path stays apart, on one PNode", () => {
  const plan = compileText(chain(["g", "", "g", "g"]));
  assert.deepEqual(
    plan.vnodes.map(({ id, nodes }) => [id, nodes.join()]),
    [
      ["n0", "n0"],
      ["n1", "n1"],
      ["n2", "n2,n3"],
    ],
  );
  assert.deepEqual(plan.colocations, [["n0", "n2"]]);
});

test("a preferred group is not fused", () => {
  const text = chain(["g", "g"]).replaceAll("colocate_group: g", "colocate_group: g, colocate_policy: preferred");
  assert.equal(compileText(text).vnodes.length, 2);
});

test("two groups that are convex each but wait for each other are not both fused", () => {
  const node = (id: string, group: string, type = "tanh") =>
    `{ id: ${id}, type: ${type}, config: { colocate_group: ${group} }, input_shapes: [[2]] }`;
  const text = `nodes: [${node("b2", "b")}, ${node("a1", "a")}, ${node("a2", "a", "add").replace(", input_shapes: [[2]]", "")}, ${node("b1", "b", "add").replace(", input_shapes: [[2]]", "")}]
edges: [{ from: a1, to: a2 }, { from: b2, to: a2, to_slot: 1 }, { from: b2, to: b1 }, { from: a1, to: b1, to_slot: 1 }]`;
  const plan = compileText(text);
  assertAcyclic(plan, 0);
  assert.equal(plan.vnodes.length, 3);
});
