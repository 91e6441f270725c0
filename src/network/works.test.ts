// What travels between threads is what was compiled.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { deserialize, serialize } from "node:v8";
import type { Aside } from "../core/aside.ts";
import { runAside } from "../core/aside.ts";
import { compileText } from "./compile.ts";
import { buildEvaluation, buildTraining } from "./graphs/graphs.ts";
import { buildUnit } from "./graphs/unit.ts";
import { answeringGraphs, buildingToLearn, compileAside } from "./works.ts";

/** As if between threads, on this one. */
const copying: Aside = {
  run: async (work, input) =>
    Array.from(work.run(deserialize(serialize(input))), (piece) => deserialize(serialize(piece))),
};

const example = (name: string) => readFileSync(new URL(`../../examples/${name}.yaml`, import.meta.url), "utf8");

for (const name of ["mlp", "conv", "gpt-demo", "t1"])
  test(`the plan of ${name} survives the way, and its graphs are built elsewhere alike`, async () => {
    const text = example(name);
    const plan = compileText(text);
    const received = await compileAside(copying, text);
    assert.deepEqual(received, plan);
    for (const [index, vnode] of plan.vnodes.entries()) {
      const other = received.vnodes[index];
      assert.deepEqual(
        other?.body.map(({ config }) => config.canonical()),
        vnode.body.map(({ config }) => config.canonical()),
      );
      const options = { microbatch: 2, lossScale: 0.5 };
      const learning = { definition: text, vnode: vnode.id, ...options, evaluates: true };
      const graphs = await runAside(copying, buildingToLearn, learning);
      assert.deepEqual(graphs.training, buildTraining(plan, vnode, options));
      assert.deepEqual(graphs.evaluation, buildEvaluation(plan, vnode, options));
    }
  });

test("graphs that answer are the same for small and large VNodes", async () => {
  const layers = Array.from({ length: 80 }, (_, i) => `- { id: n${i}, type: linear, config: { colocate_group: g } }`);
  const edges = Array.from({ length: 79 }, (_, i) => `- { from: n${i}, to: n${i + 1} }`);
  const text = `nodes:
- { id: table, type: embedder, config: { vocab_size: 11, dim: 8, seq_len: 16, colocate_group: g } }
${layers.join("\n").replaceAll("config: { ", "config: { out_dim: 8, ")}
edges:
- { from: table, to: n0 }
${edges.join("\n")}
outputs: [{ name: logits, node_id: n79 }]`;
  const plan = compileText(text);
  const [vnode] = plan.vnodes;
  assert.ok(vnode && vnode.body.length > 64);
  const asked: string[] = [];
  const aside: Aside = {
    run: (work, input) => {
      asked.push(work.name);
      return copying.run(work, input);
    },
  };
  const unit = await answeringGraphs(aside, text, plan, vnode).unit();
  assert.deepEqual(unit, buildUnit(plan, vnode));
  assert.deepEqual(asked, ["buildingToGenerate"]);
});
