import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { t1, t2, transformerYaml } from "../../examples/generate.ts";
import { analyze, renderAnalysis } from "./analyze.ts";
import { nodeTypes } from "./catalogue/registry.ts";
import { compileText } from "./compile.ts";
import { renderReference } from "./reference.ts";

const example = (name: string) => readFileSync(new URL(`../../examples/${name}.yaml`, import.meta.url), "utf8");

test("T1 and T2 in the files are what the generator writes", () => {
  assert.equal(example("t1"), transformerYaml(t1));
  assert.equal(example("t2"), transformerYaml(t2));
});

for (const [name, parameters, nodes] of [
  ["t1", 27e6, 143],
  ["t2", 45e6, 183],
] as const)
  test(`${name} has about ${parameters / 1e6}M parameters in about ${nodes} nodes, blocks fused and heads merged`, () => {
    const { totals, vnodes, ties, colocations } = analyze(example(name));
    assert.ok(Math.abs(totals.parameters - parameters) < 0.5e6, `${totals.parameters}`);
    assert.ok(Math.abs(totals.nodes - nodes) <= 5, `${totals.nodes}`);
    assert.deepEqual(
      vnodes.map(({ id }) => id),
      [
        "embedder",
        ...vnodes.filter(({ id }) => id.startsWith("transformer_block_")).map(({ id }) => id),
        "output_head",
        "lm_head",
      ],
    );
    assert.ok(
      vnodes
        .filter(({ id }) => id.startsWith("transformer_block_"))
        .every(({ nodes, merged }) => nodes.length === 22 && merged[0]?.length === 9),
    );
    assert.deepEqual(ties, [
      { from: "embedder.weight", to: "lm_head", shape: name === "t1" ? [10_000, 512] : [32_768, 512] },
    ]);
    assert.deepEqual(colocations, [["embedder", "lm_head"]]);
  });

test("analyze fits the terminal's width, whatever it is", () => {
  for (const width of [60, 80, 120]) {
    const text = renderAnalysis(analyze(example("t1")), width);
    for (const line of text.split("\n")) assert.ok(line.length <= width, `${line.length} columns: ${line}`);
    assert.match(text, /27\.2 M parameters/);
  }
});

test("the reference has every type with every key", () => {
  const text = renderReference();
  for (const { type, keys } of nodeTypes) {
    assert.ok(text.includes(`## \`${type}\``), type);
    for (const key of Object.keys(keys)) assert.ok(text.includes(`\`${key}\``), `${type}: ${key}`);
  }
});

test("config values may be text or numbers, aliases of types are the types", () => {
  const plans = [
    'nodes: [{ id: a, type: dense, config: { in_dim: "4", out_dim: "2", bias: "false" } }]',
    "nodes: [{ id: a, type: linear, config: { in_dim: 4, out_dim: 2, bias: false } }]",
  ].map((text) => compileText(text).vnodes.map(({ body: _body, ...rest }) => rest));
  assert.deepEqual(plans[0], plans[1]);
});
