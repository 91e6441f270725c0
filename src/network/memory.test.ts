// What is claimed for a served VNode is what it takes: its weights in their format and a little more, and the caches.

import assert from "node:assert/strict";
import { test } from "node:test";
import { compileText } from "./compile.ts";
import { cacheBytesPerPosition, cachePositionsMax } from "./graphs/generation.ts";
import { parametersOf, servingBytesOf, wholeServingBytesOf } from "./memory.ts";

const plan = compileText(`nodes:
  - { id: table, type: embedder, config: { vocab_size: 4096, dim: 512, seq_len: 128 } }
  - { id: mix, type: attention, config: { num_heads: 8, num_kv_heads: 2, position_encoding: rope } }
  - { id: up, type: linear, config: { out_dim: 2048, bias: false } }
  - { id: bend, type: gelu }
  - { id: down, type: linear, config: { out_dim: 512, bias: false } }
  - { id: head, type: linear, config: { out_dim: 4096, bias: false } }
edges: [{ from: table, to: mix }, { from: mix, to: up }, { from: up, to: bend }, { from: bend, to: down }, { from: down, to: head }]
outputs: [{ name: logits, node_id: head }]`);

/** With a float for each block of 32. */
const bytesPerWeight = { float32: 4, "8bit": 1 + 4 / 32, "4bit": 0.5 + 4 / 32 };
/** Of each VNode, whatever it is. */
const workspaceBytes = { float32: 4 << 20, "8bit": 12 << 20, "4bit": 12 << 20 };

for (const [format, bytes] of Object.entries(bytesPerWeight))
  test(`a VNode claims at most 1.3 times its weights in ${format}, its caches and its workspace`, () => {
    for (const vnode of plan.vnodes) {
      const caches = cacheBytesPerPosition(vnode) * cachePositionsMax(plan);
      const kept = format as keyof typeof bytesPerWeight;
      const claimed = servingBytesOf(plan, vnode, kept) - caches - workspaceBytes[kept];
      const weights = parametersOf(vnode) * bytes;
      if (weights < 1 << 20) continue;
      assert.ok(claimed >= weights && claimed <= 1.3 * weights, `${vnode.id}: ${claimed} for ${weights}`);
    }
  });

test("keys and values of all positions are claimed by the VNode that keeps them, and a whole model claims what its VNodes do", () => {
  const mix = plan.vnodes.find(({ id }) => id === "mix") ?? assert.fail("it is there");
  const perPosition = 2 * 64 * 2 * 4;
  assert.equal(cacheBytesPerPosition(mix), perPosition);
  assert.ok(servingBytesOf(plan, mix) > 16 * 128 * perPosition);
  const each = plan.vnodes.map((vnode) => servingBytesOf(plan, vnode, "4bit"));
  assert.equal(
    wholeServingBytesOf(plan, "4bit"),
    each.reduce((sum, bytes) => sum + bytes, 0),
  );
});
