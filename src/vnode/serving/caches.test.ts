// What caches take is what placement was told they would: a PNode must not be filled beyond its memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { elementCount, float32, type Tensor } from "../../core/tensor.ts";
import type { Executor } from "../../engine/engine.ts";
import { compileText } from "../../network/compile.ts";
import {
  buildGeneration,
  cacheBytesPerPosition,
  contextOf,
  requestsAtOnceMax,
} from "../../network/graphs/generation.ts";
import { Caches } from "./caches.ts";

const memory = {
  tensor: (_: string, shape: number[]) => float32(shape, new Float32Array(elementCount(shape))),
  recycle: () => {},
} as unknown as Executor;

const networks = {
  "grouped heads": "{ id: mix, type: attention, config: { num_heads: 4, num_kv_heads: 2, head_dim: 6 } }",
  "all heads": "{ id: mix, type: attention, config: { num_heads: 4 } }",
  "one head": "{ id: mix, type: attention_head, config: { head_dim: 8 } }",
};

for (const [what, node] of Object.entries(networks))
  test(`caches of ${what} take as much memory as was announced`, () => {
    const plan = compileText(`nodes:
  - { id: table, type: embedder, config: { vocab_size: 11, dim: 8, seq_len: 64, shared_weight_alias: t } }
  - ${node}
  - { id: loss, type: tied_lm_head_ce, config: { tie_weight_alias: t } }
edges: [{ from: table, to: mix }, { from: mix, to: loss }]`);
    const context = contextOf(plan);
    const bytes = plan.vnodes.map((vnode) => {
      const { caches: plans } = buildGeneration(plan, vnode, { requests: 1, tokens: 1, cached: 0 });
      const caches = new Caches(memory, plans);
      const results: Record<string, Tensor> = {};
      for (const { keyOutput, valueOutput, heads, width } of plans)
        for (const name of [keyOutput, valueOutput])
          results[name] = float32([1, heads, context, width], new Float32Array(heads * context * width));
      for (let request = 0; request < requestsAtOnceMax; request++) caches.append(`${request}`, results, 0, context);
      assert.equal(caches.bytes, cacheBytesPerPosition(vnode) * context * requestsAtOnceMax);
      return caches.bytes;
    });
    assert.equal(bytes.filter((size) => size > 0).length, 1, "only the VNode that attends keeps anything");
  });
