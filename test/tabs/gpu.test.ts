// The engine of browsers' GPUs, in the tests' browser on a GPU in software: the suite of all engines, the graphs of examples against the
// portable engine, a small training, and what is said when the GPU is gone.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, describe, test } from "node:test";
import { fillNormal, randomKey } from "../../src/core/numbers/random.ts";
import { bytesOf, elementCount, type Tensor } from "../../src/core/tensor.ts";
import { engineConformance } from "../../src/engine/conformance.ts";
import type { Tensors } from "../../src/engine/engine.ts";
import { openPortableEngine } from "../../src/engine/portable/engine.ts";
import { openReferenceEngine } from "../../src/engine/reference.ts";
import { lowerModel } from "../../src/graph/lower.ts";
import type { GraphModel, ValueInfo } from "../../src/graph/model.ts";
import { compileText } from "../../src/network/compile.ts";
import { buildEvaluation, buildTraining } from "../../src/network/graphs/graphs.ts";
import { mlp, tied } from "../../src/vnode/training-run.testing.ts";
import { launchBrowser } from "../browser/browser.ts";
import { bundle, serve } from "../portable/serve.ts";
import { operatorGraphs } from "./gpu/operators.ts";
import { remoteEngine } from "./gpu/remote.ts";

const browser = await launchBrowser({ gpu: true });
const { url, close } = await serve(await bundle("../tabs/gpu/page.ts", "browser"));
const page = await browser.newPage();
await page.goto(url);
await page.waitForFunction("'gpuEngine' in window");
const adapter = await page.evaluate(() => window.gpuEngine.open());
after(async () => {
  await browser.close();
  await close();
});

/** Far below what any index of the examples counts. */
const indicesBelow = 2;
const tolerance = 1e-5;

function fed({ name, dtype, shape }: ValueInfo): Tensor {
  const count = elementCount(shape);
  if (dtype === "int32") return { dtype, shape, data: Int32Array.from({ length: count }, (_, i) => i % indicesBelow) };
  const data = new Float32Array(count);
  fillNormal(data, randomKey("feed", name), 0.5);
  return { dtype: "float32", shape, data };
}

/** The largest difference, as a share of the largest value. */
function difference(found: Tensor, expected: Tensor): number {
  const [a, b] = [found.data as Float32Array, expected.data as Float32Array];
  let [most, scale] = [0, 1e-6];
  for (const [i, value] of b.entries()) {
    most = Math.max(most, Math.abs((a[i] as number) - value));
    scale = Math.max(scale, Math.abs(value));
  }
  return most / scale;
}

if (adapter === "") test("a browser's GPU", { skip: "this browser gives pages no GPU" }, () => {});
else {
  const engine = remoteEngine(page);

  describe("graphs of the examples, as the portable engine computes them", () => {
    for (const [name, microbatch] of Object.entries({ mlp: 2, conv: 2, "gpt-demo": 1 }))
      test(name, async () => {
        const portable = openPortableEngine();
        const plan = compileText(readFileSync(new URL(`../../examples/${name}.yaml`, import.meta.url), "utf8"));
        // Blocks are alike.
        for (const vnode of plan.vnodes.filter(({ id }) => !/^block_[2-9]/.test(id))) {
          const { forward, backward } = buildTraining(plan, vnode, { microbatch, lossScale: 1 });
          for (const graph of [forward, backward, buildEvaluation(plan, vnode, { microbatch })])
            if (graph !== undefined) await compare(graph, portable.load(graph));
        }
        await portable.close();
      });
  });

  describe("operators that the examples do not have, as the reference computes them", () => {
    for (const graph of operatorGraphs)
      test(graph.name, () => compare(graph, openReferenceEngine().load(lowerModel(graph))));
  });

  async function compare(graph: GraphModel, loading: ReturnType<typeof engine.load>): Promise<void> {
    const feeds: Tensors = Object.fromEntries(graph.inputs.map((input) => [input.name, fed(input)]));
    const [there, here] = [await engine.load(graph), await loading];
    const [found, again, expected] = [await there.run(feeds), await there.run(feeds), await here.run(feeds)];
    for (const { name } of graph.outputs) {
      const [one, other, right] = [found[name], again[name], expected[name]] as [Tensor, Tensor, Tensor];
      assert.deepEqual(bytesOf(one), bytesOf(other), `${graph.name}: ${name} repeats`);
      assert.ok(difference(one, right) <= tolerance, `${graph.name}: ${name} differs by ${difference(one, right)}`);
    }
    await there.release();
    await here.release();
  }

  for (const [name, text] of Object.entries({ mlp, tied }))
    test(`trains ${name} with losses near those of the portable engine, and the same bits again`, async () => {
      const train = (on: "webgpu" | "portable") =>
        page.evaluate(([network, where]) => window.gpuEngine.train(network, where), [text, on] as const);
      const [first, second, portable] = [await train("webgpu"), await train("webgpu"), await train("portable")];
      const rounded = (losses: readonly number[]) => losses.map((loss) => loss.toFixed(4));
      assert.deepEqual(rounded(first.losses), rounded(portable.losses));
      assert.deepEqual(second.hashes, first.hashes);
    });

  test("gives memory back with the programs that needed it", async () => {
    const info = (name: string) => ({ name, dtype: "float32" as const, shape: [512, 512] });
    const nodes = [{ op: "MatMul", name: "c", inputs: ["a", "b"], outputs: ["c"], attributes: {} }];
    const graph = { name: "large", inputs: [info("a"), info("b")], outputs: [info("c")], nodes, constants: {} };
    const before = await page.evaluate(() => window.gpuEngine.memoryBytes());
    const program = await engine.load(graph);
    await program.run({ a: fed(info("a")), b: fed(info("b")) });
    assert.ok((await page.evaluate(() => window.gpuEngine.memoryBytes())) >= before + 3 * 2 ** 20);
    await program.release();
    assert.ok((await page.evaluate(() => window.gpuEngine.memoryBytes())) <= before);
  });

  test("a GPU that is gone is told in one sentence, now and later", async () => {
    const said = await page.evaluate(() => window.gpuEngine.lose());
    for (const sentence of said) assert.match(sentence, /^the GPU was lost: /);
  });

  engineConformance("webgpu of browsers", () => engine, { denormals: "kept or flushed" });
}
