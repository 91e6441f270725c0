// What a program for any number of rows keeps: the runtime has packed the weights, so that nothing of ours may hold them too.

import assert from "node:assert/strict";
import { it } from "node:test";
import { float32 } from "../../core/tensor.ts";
import { anyRows } from "../../graph/rows.ts";
import { collectGarbage } from "../pool/collect.ts";
import { hasNativeEngine, openNativeEngine } from "./native.ts";

const width = 64;

it("a program that was loaded holds on to no weights of ours", { skip: !hasNativeEngine() }, async () => {
  const engine = await openNativeEngine();
  const load = async () => {
    const data = new Float32Array(new SharedArrayBuffer(4 * width * width));
    const program = await engine.loadRows?.(
      {
        name: "product",
        inputs: [
          { name: "x", dtype: "float32", shape: [anyRows, width] },
          { name: "w", dtype: "float32", shape: [width, width] },
        ],
        outputs: [{ name: "y", dtype: "float32", shape: [anyRows, width] }],
        nodes: [{ op: "Gemm", name: "product", inputs: ["x", "w"], outputs: ["y"], attributes: {} }],
        constants: {},
      },
      { w: { dtype: "float32", shape: [width, width], data } },
    );
    assert.ok(program && !program.keepsWeights);
    return { program, weights: new WeakRef(data) };
  };
  const { program, weights } = await load();
  for (let i = 0; i < 10 && weights.deref() !== undefined; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
  }
  assert.equal(weights.deref(), undefined, "they would lie in memory twice");
  const row = () => float32([1, width], new Float32Array(width));
  await program.run([row()], [row()], 1);
  await program.release();
});
