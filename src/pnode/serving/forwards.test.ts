import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { compileText } from "../../network/compile.ts";
import { DataType, TensorSchema } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import { Forwards, samplesMaxOf } from "./forwards.ts";
import type { ServingContext } from "./serving-context.ts";

const context = {
  plan: { name: "gpt", inputs: { shape: [2], wire: "int32", below: 10 }, outputs: [] },
} as unknown as ServingContext;

test("ids that the vocabulary does not have are refused by name, before anything computes", async () => {
  const forward = (...ids: number[]) => {
    // At an odd place of a larger message, as they come from the wire.
    const data = new Uint8Array(new Uint8Array([7, ...new Uint8Array(Int32Array.from(ids).buffer)]).buffer, 1);
    const input = create(TensorSchema, { dtype: DataType.INT32, shape: [1, 2], data });
    const forwards = new Forwards();
    return forwards.run(context, input, (id) => forwards.finish(id, {}), new AbortController().signal);
  };
  await assert.rejects(forward(1, 10), /token 10 is outside the model's vocabulary of 10/);
  await assert.rejects(forward(-1, 1), /token -1 is outside the model's vocabulary of 10/);
  assert.deepEqual(await forward(0, 9), { outputs: {} });
});

test("samples of one pass came in one message, and where positions are computed they are no more than at once", () => {
  const plan = compileText(`nodes:
  - { id: table, type: embedder, config: { vocab_size: 5, dim: 4, seq_len: 4096, position_encoding: none } }
  - { id: logits, type: linear, config: { out_dim: 5 } }
edges: [{ from: table, to: logits }]
outputs: [{ name: logits, node_id: logits }]`);
  assert.equal(samplesMaxOf(plan, true), (4 << 20) / (4 * 4096));
  assert.equal(samplesMaxOf(plan, false), (1 << 16) / 4096);
});
