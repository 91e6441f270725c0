import assert from "node:assert/strict";
import { test } from "node:test";
import { blockOf, edgesBetween, groupsOf, opened, usualGrouping } from "./groups.ts";
import type { LayoutEdge } from "./layout.ts";

const edge = (from: string, to: string, kind = "activation"): LayoutEdge => ({ id: `${from}-${to}`, from, to, kind });

test("VNodes stand in blocks by the numbers in their names, however networks are written", () => {
  assert.equal(blockOf("block_1_head_0"), "block 1");
  assert.equal(blockOf("layers.12.mlp"), "layer 12");
  assert.equal(blockOf("transformer_block_3_ffn"), "transformer_block 3");
  assert.equal(blockOf("ffn_up_2"), "block 2");
  assert.equal(blockOf("embedder"), undefined);
  assert.equal(blockOf("block_1_head_0#2"), "block 1, lane 2", "lanes are not mixed");
});

test("every VNode is in exactly one group, in order, whatever groups them", () => {
  const vnodes = ["embedder", "block_1_a", "block_1_b", "block_2_a", "head"];
  for (const grouping of ["VNodes", "blocks", "machines"] as const) {
    const groups = groupsOf(vnodes, grouping, (vnode) => (vnode === "head" ? "" : vnode.at(-1)!));
    assert.deepEqual(groups.flatMap(({ members }) => members).sort(), vnodes.toSorted(), grouping);
    assert.equal(new Set(groups.map(({ id }) => id)).size, groups.length);
  }
  assert.deepEqual(
    groupsOf(vnodes, "blocks", () => "").map(({ title }) => title),
    ["embedder", "block 1", "block_2_a", "head"],
    "a block of one is that VNode",
  );
});

test("a group that is opened gives its place to its members, and its edges to theirs", () => {
  const vnodes = ["a_1", "b_1", "a_2", "b_2"];
  const edges = [edge("a_1", "b_1"), edge("b_1", "a_2"), edge("a_1", "a_2"), edge("a_2", "b_2")];
  const groups = groupsOf(vnodes, "blocks", () => "");
  assert.deepEqual(
    edgesBetween(groups, edges).map(({ from, to, count }) => [from, to, count]),
    [["group block 1", "group block 2", 2]],
  );
  const open = opened(groups, new Set(["group block 1"]));
  assert.deepEqual(
    open.map(({ id }) => id),
    ["a_1", "b_1", "group block 2"],
  );
  assert.equal(edgesBetween(open, edges).length, 3);
});

test("ties are told apart from what flows beside them", () => {
  const groups = groupsOf(["a", "b"], "VNodes", () => "");
  assert.deepEqual(
    edgesBetween(groups, [edge("a", "b"), edge("a", "b", "tie")]).map(({ kind }) => kind),
    ["activation", "tie"],
  );
});

test("what can be read is not grouped; what cannot is, where names allow it", () => {
  const many = (name: (index: number) => string) => Array.from({ length: 140 }, (_, index) => name(index));
  assert.equal(usualGrouping(["a", "b", "c"]), "VNodes");
  assert.equal(usualGrouping(many((index) => `block_${index % 6}_part_${index}`)), "blocks");
  assert.equal(usualGrouping(many((index) => `word${"x".repeat(index)}`)), "VNodes");
});
