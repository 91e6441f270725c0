// What a program for any number of rows keeps: the runtime has packed the weights, so that nothing of ours may hold them too.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { fillNormal, randomKey } from "../../core/numbers/random.ts";
import { float32 } from "../../core/tensor.ts";
import { anyRows } from "../../graph/rows.ts";
import type { Engine } from "../engine.ts";
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

it("what a program was tried with is gone when it is loaded", { skip: !hasNativeEngine() }, async () => {
  const engine = await openNativeEngine();
  const [inner, columns] = [32, 20_000];
  const info = (name: string, shape: readonly number[]) => ({ name, dtype: "float32" as const, shape });
  const graph = {
    name: "wide",
    inputs: [info("x", [anyRows, inner]), info("w", [inner, columns])],
    outputs: [info("y", [anyRows, columns])],
    nodes: [{ op: "Gemm", name: "product", inputs: ["x", "w"], outputs: ["y"], attributes: {} }],
    constants: {},
  };
  const w = float32([inner, columns], new Float32Array(inner * columns));
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  const program = await engine.loadRows?.(graph, { w });
  // All rows that are tried at once are 2 MB, and every split of them is as much again.
  const left = (process.memoryUsage().arrayBuffers - before) / 2 ** 20;
  await program?.release();
  assert.ok(left < 2, `${left.toFixed(1)} MB wait for the collector`);
});

/** A product with weights, a bias that is too small for a file, and what it makes of three rows. */
async function productOf(engine: Engine): Promise<Float32Array> {
  const w = float32([width, width], new Float32Array(width * width));
  fillNormal(w.data as Float32Array, randomKey("product", "w"), 1);
  const info = (name: string, shape: readonly number[]) => ({ name, dtype: "float32" as const, shape });
  const program = await engine.loadRows?.(
    {
      name: "product",
      inputs: [info("x", [anyRows, width]), info("w", [width, width]), info("b", [width])],
      outputs: [info("y", [anyRows, width])],
      nodes: [{ op: "Gemm", name: "product", inputs: ["x", "w", "b"], outputs: ["y"], attributes: {} }],
      constants: {},
    },
    { w, b: float32([width], new Float32Array(width).fill(0.5)) },
  );
  const rows = program?.padded(3) ?? 0;
  const [x, y] = [0, 1].map(() => float32([rows, width], new Float32Array(rows * width)));
  fillNormal(x!.data as Float32Array, randomKey("product", "x"), 1);
  await program?.run([x!], [y!], rows);
  await program?.release();
  return y!.data as Float32Array;
}

it("weights that are loaded through files give the same bits, and leave no file", {
  skip: !hasNativeEngine(),
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "dcnr-weights-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const expected = await productOf(await openNativeEngine());
  assert.deepEqual(await productOf(await openNativeEngine(join(folder, "made"))), expected);
  if (process.platform !== "win32") assert.deepEqual(readdirSync(join(folder, "made")), []);
  writeFileSync(join(folder, "taken"), "");
  assert.deepEqual(
    await productOf(await openNativeEngine(join(folder, "taken", "below"))),
    expected,
    "without a folder",
  );
});
