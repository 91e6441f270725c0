// Networks that people bring as ONNX files, served: the numerics of a VNode that answers explicit tensors give the outputs of the
// framework that they come from, all samples at once and one by one.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { elementCount, float32, type Tensor } from "../../core/tensor.ts";
import { openInlineExecutor } from "../../engine/executor.ts";
import { openReferenceEngine } from "../../engine/reference.ts";
import { compileText } from "../../network/compile.ts";
import { canGenerate } from "../../network/graphs/generation.ts";
import { buildInference } from "../../network/graphs/graphs.ts";
import { importOnnx } from "../../network/onnx/import-onnx.ts";
import type { StateReader } from "../../states/reader.ts";
import { VNodeForward } from "./forward.ts";
import { ServingWeights } from "./weights.ts";

interface Fixture {
  readonly inputs: readonly number[];
  readonly shape: readonly number[];
  readonly outputs: readonly number[];
  readonly fixed?: Readonly<Record<string, number>>;
}

const file = (name: string) => readFileSync(new URL(`../../network/fixtures/exporters/${name}`, import.meta.url));
const fixtures: Record<string, Fixture> = JSON.parse(file("models.json").toString());

for (const [name, { inputs, shape, outputs, fixed }] of Object.entries(fixtures))
  test(`${name} is served: the framework's outputs, at once and one by one`, async () => {
    const { definition, weights } = importOnnx(file(`${name}.onnx`), { name, ...(fixed && { fixed }) });
    const plan = compileText(definition);
    assert.ok(!canGenerate(plan), "it answers explicit tensors");
    const executor = openInlineExecutor(openReferenceEngine());
    const state = {
      what: "the imported weights",
      readInto: async (wanted: readonly { name: string; into: Float32Array }[]) => {
        for (const { name: parameter, into } of wanted) into.set(weights.get(parameter)!.data as Float32Array);
      },
    } as unknown as StateReader;
    const forwards = new Map<string, VNodeForward>();
    for (const vnode of plan.vnodes) {
      const wanted = vnode.parameters.map((one) => ({ ...one, stored: one.name, state }));
      const graphs = {
        inference: async (samples: number) => buildInference(plan, vnode, { microbatch: samples }),
        unit: () => assert.fail("it has none"),
      };
      const loaded = await ServingWeights.load(wanted, executor);
      forwards.set(vnode.id, new VNodeForward({ graphs, executor, weights: loaded, name: vnode.id }));
    }
    const [samples = 0, ...rest] = shape;
    const width = elementCount(rest);
    const answer = async (from: number, count: number): Promise<number[]> => {
      const own = inputs.slice(from * width, (from + count) * width);
      const whole = [count, ...rest];
      const given: Tensor =
        plan.inputs!.wire === "int32"
          ? { dtype: "int32", shape: whole, data: Int32Array.from(own) }
          : float32(whole, own);
      let values: Record<string, Tensor> = { inputs: given };
      for (const id of plan.order) {
        const vnode = plan.vnodes.find((one) => one.id === id)!;
        const fed = vnode.inputs
          .filter(({ source }) => source !== "labels")
          .map((port) => [port.name, values[port.name]!]);
        const results = await forwards.get(id)!.run(Object.fromEntries(fed), count);
        values = { ...values, ...results };
        for (const edge of plan.edges)
          if (edge.from === id && results[edge.fromPort]) values[edge.toPort] = results[edge.fromPort]!;
      }
      return Array.from(values[plan.outputs[0]!.port]!.data as Float32Array);
    };
    const scale = Math.max(1, ...outputs.map(Math.abs));
    const assertOutputs = (found: readonly number[], what: string) => {
      assert.equal(found.length, outputs.length, what);
      for (const [i, value] of outputs.entries())
        assert.ok(Math.abs(found[i]! - value) < 1e-5 * scale, `${what} [${i}]: ${found[i]} is not ${value}`);
    };
    assertOutputs(await answer(0, samples), "at once");
    const single: number[] = [];
    for (let sample = 0; sample < samples; sample++) single.push(...(await answer(sample, 1)));
    assertOutputs(single, "one by one");
    for (const forward of forwards.values()) forward.close();
    await executor.close();
  });
