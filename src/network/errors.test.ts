// Every mistake in a definition ends in one sentence that names the node, the key and what was expected.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode } from "../core/errors.ts";
import { compileText } from "./compile.ts";

/** A sound chain of four nodes; each case below spoils one thing in it. */
const sound = {
  nodes: [
    "{ id: first, type: linear, config: { in_dim: 4, out_dim: 8 } }",
    "{ id: bend, type: relu }",
    "{ id: last, type: linear, config: { in_dim: 8, out_dim: 3 } }",
    "{ id: loss, type: cost, config: { cost_function: ce_logits } }",
  ],
  edges: ["{ from: first, to: bend }", "{ from: bend, to: last }", "{ from: last, to: loss }"],
  more: "costs: [{ name: loss, node_id: loss }]",
};

function yaml({ nodes, edges, more }: typeof sound): string {
  const list = (items: readonly string[]) => items.map((item) => `\n  - ${item}`).join("");
  return `name: small\nnodes:${list(nodes)}\nedges:${list(edges)}\n${more}\n`;
}

function withNode(index: number, node: string): string {
  return yaml({ ...sound, nodes: sound.nodes.with(index, node) });
}

function withEdges(...edges: string[]): string {
  return yaml({ ...sound, edges: [...sound.edges, ...edges] });
}

const cases: readonly [what: string, text: string, sentence: string][] = [
  [
    "text that is no YAML",
    "nodes: [",
    "the definition is not valid YAML: Flow sequence in block collection must be sufficiently indented and end with a ] at line 1, column 9",
  ],
  ["a list instead of a mapping", "- 1", 'the definition must be a mapping of keys to values, found "[1]"'],
  ["no nodes", "nodes: []", '"nodes" is empty: a network needs at least one node'],
  ["an unknown top-level key", `${yaml(sound)}edgs: []`, 'the definition: unknown key "edgs", did you mean "edges"?'],
  [
    "an unknown type",
    withNode(1, "{ id: bend, type: rellu }"),
    'node "bend": unknown type "rellu", did you mean "relu"?',
  ],
  [
    "an unknown key",
    withNode(0, "{ id: first, type: linear, config: { in_dims: 4, out_dim: 8 } }"),
    'node "first": unknown key "in_dims", did you mean "in_dim"?',
  ],
  [
    "a missing key",
    withNode(3, "{ id: loss, type: cost }"),
    'node "loss": key "cost_function" is missing: it must be one of mse, ce, ce_logits (which loss)',
  ],
  [
    "a value that is no number",
    withNode(0, "{ id: first, type: linear, config: { out_dim: many } }"),
    'node "first": key "out_dim" must be a whole number from 1 to 16777216, found "many"',
  ],
  [
    "a value out of range",
    withNode(1, "{ id: bend, type: dropout, config: { rate: 1 } }"),
    'node "bend": key "rate" must be a number from 0 to below 1, found "1"',
  ],
  [
    "a choice that does not exist",
    withNode(0, "{ id: first, type: linear, config: { out_dim: 8, in_dim: 4, optimizer: adan } }"),
    'node "first": key "optimizer" must be one of adam, adamw, sgd, found "adan", did you mean "adam"?',
  ],
  ["an id used twice", withNode(1, "{ id: first, type: relu }"), 'node "first" is defined twice: ids must be unique'],
  [
    "an id with a space",
    withNode(1, '{ id: "be nd", type: relu }'),
    'nodes[1].id "be nd" may only use letters, digits, "_", "." and "-", and starts with a letter or digit',
  ],
  [
    "a dangling edge",
    withEdges("{ from: lost, to: bend }"),
    'edges[3] (lost -> bend): there is no node "lost", did you mean "last"?',
  ],
  [
    "a slot connected twice",
    withEdges("{ from: first, to: last }"),
    'edges[3] (first -> last): input 0 of node "last" is connected twice; use add or stack to join values',
  ],
  [
    "an output slot that does not exist",
    withEdges("{ from: first, from_slot: 1, to: last }"),
    'edges[3] (first -> last): node "first" has one output slot (0), there is no from_slot 1',
  ],
  [
    "an input slot that does not exist",
    withEdges("{ from: first, to: last, to_slot: 2 }"),
    'edges[3] (first -> last): node "last" has one input slot (0), there is no to_slot 2',
  ],
  [
    "a negative slot",
    withEdges("{ from: first, to: last, to_slot: -1 }"),
    'edges[3].to_slot must be a whole number from 0 to 4096, found "-1"',
  ],
  [
    "an input left open",
    withNode(1, "{ id: bend, type: add }"),
    'node "bend": input 1 is not connected: add an edge to it (to_slot: 1)',
  ],
  [
    "sizes that do not meet",
    withNode(2, "{ id: last, type: linear, config: { in_dim: 7, out_dim: 3 } }"),
    'node "last": key "in_dim" is 7, but the last axis of its input [8] is 8',
  ],
  [
    "a declared input shape that is wrong",
    withNode(1, "{ id: bend, type: relu, input_shapes: [[9]] }"),
    'node "bend": input 0 should have the shape [9], but "first" output 0 has [8]',
  ],
  [
    "a declared output shape that is wrong",
    withNode(1, "{ id: bend, type: relu, output_shapes: [[2, 4]] }"),
    'node "bend": output 0 should have the shape [2, 4], but it has [8]',
  ],
  [
    "a vocabulary that does not fit",
    withNode(3, "{ id: loss, type: cost, config: { cost_function: ce_logits, vocab_size: 4 } }"),
    'node "loss": key "vocab_size" is 4, but the last axis of its input [3] is 3',
  ],
  [
    "a tie to an alias that nobody publishes",
    withNode(2, "{ id: last, type: linear, config: { tie_weight_alias: tokens } }"),
    'node "last": key "tie_weight_alias": nobody publishes "tokens"; give the node that owns the weights shared_weight_alias: tokens',
  ],
  [
    "a cycle",
    yaml({ ...sound, edges: ["{ from: last, to: bend }", "{ from: bend, to: last }", "{ from: first, to: loss }"] }),
    "the nodes form a cycle: bend -> last -> bend; remove one of its edges",
  ],
  [
    "a cost that is none",
    yaml({ ...sound, more: "costs: [{ node_id: bend }]" }),
    'costs[0]: node "bend" is of type relu, a cost is output 0 of a cost node',
  ],
  [
    "an output of no node",
    yaml({ ...sound, more: "outputs: [{ node_id: lst }]" }),
    'outputs[0]: there is no node "lst", did you mean "last"?',
  ],
  [
    "a wire type that nothing can send",
    `activation_precision: int4\n${yaml(sound)}`,
    'the definition: activation_precision must be one of float32, fp16, bf16, int8, found "int4"',
  ],
  [
    "weights that would learn in eight bits",
    `param_precision: int8\n${yaml(sound)}`,
    "the definition: weights do not learn in int8; only activation_precision may be int8",
  ],
  [
    "an unknown precision",
    `precision: fp8\n${yaml(sound)}`,
    'the definition: precision must be one of float32, fp16, bf16, found "fp8"',
  ],
  [
    "a precision that every object answers to",
    `precision: constructor\n${yaml(sound)}`,
    'the definition: precision must be one of float32, fp16, bf16, found "constructor"',
  ],
  [
    "data without a shape",
    "nodes: [{ id: a, type: relu }]",
    'node "a": takes data from the dataset, so its shape must be given: add "input_shapes: [[...]]"',
  ],
  [
    "token ids where activations belong",
    "nodes: [{ id: t, type: tokenizer, config: { pad_length: 4 } }, { id: l, type: linear, config: { out_dim: 2 } }]\nedges: [{ from: t, to: l }]",
    'node "l": input 0 must be activations, found token ids [4]',
  ],
  [
    "optimizers that differ inside a group",
    yaml({
      ...sound,
      nodes: sound.nodes
        .map((node, i) =>
          i < 3
            ? node
                .replace("config: {", "config: { colocate_group: g,")
                .replace("relu }", "relu, config: { colocate_group: g } }")
            : node,
        )
        .with(2, "{ id: last, type: linear, config: { out_dim: 3, optimizer: sgd, colocate_group: g } }"),
    }),
    'nodes "first" and "last" are fused to VNode "g" but have different optimizers (adam and sgd, or other constants): give all of the group the same',
  ],
  [
    "a size that is not there",
    withNode(1, "{ id: bend, type: relu, config: { dim: 9 } }"),
    'node "bend": key "dim" is 9, but the last axis of its input [8] is 8',
  ],
  [
    "a weight that fits no machine",
    "nodes: [{ id: e, type: embedder, config: { vocab_size: 16777216, dim: 16777216, seq_len: 1 } }]",
    'node "e": its weight "weight" [16777216, 16777216] has more than 17179869184 elements',
  ],
  [
    "two shapes added",
    "nodes: [{ id: a, type: linear, config: { in_dim: 2, out_dim: 3 } }, { id: b, type: linear, config: { in_dim: 2, out_dim: 4 } }, { id: c, type: add }]\nedges: [{ from: a, to: c }, { from: b, to: c, to_slot: 1 }]",
    'node "c": adds [3] (input 0) and [4] (input 1): the shapes must be equal',
  ],
  [
    "heads that do not divide",
    "nodes: [{ id: a, type: attention, config: { num_heads: 3, seq_len: 4, dim: 8 } }]",
    'node "a": key "num_heads" must divide dim 8, found 3; or give "head_dim"',
  ],
  [
    "stretched positions that are not described",
    "nodes: [{ id: a, type: attention, config: { num_heads: 2, seq_len: 4, dim: 8, position_encoding: rope, rope_scaling: linear } }]",
    'node "a": key "rope_factor" is missing for rope_scaling "linear"',
  ],
  [
    "a description of positions that are not stretched",
    "nodes: [{ id: a, type: attention, config: { num_heads: 2, seq_len: 4, dim: 8, position_encoding: rope, rope_factor: 2 } }]",
    'node "a": key "rope_factor" means nothing for rope_scaling "none"',
  ],
  [
    "stretched positions where there are none",
    "nodes: [{ id: a, type: attention, config: { num_heads: 2, seq_len: 4, dim: 8, rope_scaling: linear, rope_factor: 2 } }]",
    'node "a": key "rope_scaling" needs position_encoding "rope"',
  ],
];

for (const [what, text, sentence] of cases)
  test(`${what} is refused by name`, () => {
    assert.throws(
      () => compileText(text),
      (thrown: Error) => {
        assert.equal(thrown.message, sentence);
        return hasCode(thrown, "invalid_argument");
      },
    );
  });

test("the chain that the cases spoil is sound", () => {
  assert.equal(compileText(yaml(sound)).vnodes.length, 3);
});

test("a definition of many megabytes, deep nesting or alias bombs is refused before it fills memory", () => {
  const bomb = `a: &a [${"x,".repeat(50)}]\nb: &b [${"*a,".repeat(50)}]\nc: &c [${"*b,".repeat(50)}]\nd: [${"*c,".repeat(50)}]`;
  for (const text of [
    "x".repeat(9 << 20),
    `nodes: ${"[".repeat(20_000)}`,
    `nodes: ${"[".repeat(40)}${"]".repeat(40)}`,
    bomb,
  ])
    assert.throws(
      () => compileText(text),
      (thrown) => hasCode(thrown, "invalid_argument"),
    );
});
