// What the webgpu engine must do, on the GPU that this process sees (software-gpu.ts starts it): the suite of all engines, operators of
// every example, optimizers, and a small training against the native engine.

import { strict as assert } from "node:assert";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { fillNormal, randomKey } from "../../src/core/numbers/random.ts";
import { loadOptional } from "../../src/core/optional.ts";
import { engineConformance } from "../../src/engine/conformance.ts";
import type { Executor, KernelCall, SharedBytes } from "../../src/engine/engine.ts";
import { exactClass, openExactEngine } from "../../src/engine/exact/engine.ts";
import { openInlineExecutor } from "../../src/engine/executor.ts";
import { openExecutor } from "../../src/engine/pool/threads.ts";
import { openReferenceEngine } from "../../src/engine/reference.ts";
import { openWebgpuEngine } from "../../src/engine/webgpu/engine.ts";
import { WebgpuDevice } from "../../src/engine/webgpu/runtime.ts";
import { compileText } from "../../src/network/compile.ts";
import { buildEvaluation, buildTraining } from "../../src/network/graphs/graphs.ts";
import type { VNodePlan } from "../../src/network/plan.ts";
import { mlp, schedule, tied, train } from "../../src/vnode/training-run.testing.ts";
import { warmUp } from "../../src/vnode/warm-up.ts";

engineConformance("webgpu", openWebgpuEngine, { denormals: "kept or flushed" });

describe("graphs of the examples", () => {
  for (const name of ["gpt-demo", "mlp", "conv", "t1", "t2"])
    test(`${name}: no node falls back to the CPU`, async () => {
      const device = new WebgpuDevice(await loadOptional("onnxruntime-node", "native", "a test"));
      const text = readFileSync(new URL(`../../examples/${name}.yaml`, import.meta.url), "utf8");
      const plan = compileText(text);
      for (const vnode of plan.vnodes) {
        const { forward, backward } = buildTraining(plan, vnode, { microbatch: 2, lossScale: 1 });
        for (const graph of [forward, backward, buildEvaluation(plan, vnode, { microbatch: 2 })])
          if (graph !== undefined) await (await device.load(graph, new Set())).release();
      }
    });
});

describe("an executor on the GPU", () => {
  let device: Executor;
  const host = openInlineExecutor(openReferenceEngine());
  before(async () => {
    device = await openExecutor({ kind: "webgpu", workers: 4 });
  });
  after(async () => {
    await device.close();
    await host.close();
  });

  test("has one worker, however many are asked for", () => {
    assert.equal(device.workers, 1);
  });

  const updates: Readonly<Record<string, (span: (name: string) => Span, step: number) => KernelCall>> = {
    adam: (span, step) => ({
      kind: "adam",
      ...{ weights: span("weights"), gradient: span("gradient"), first: span("first"), second: span("second") },
      ...{ rate: 1e-3, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.1, gradientScale: 0.7 },
      ...{ correction1: 1 - 0.9 ** step, correction2: 1 - 0.95 ** step },
    }),
    sgd: (span) => ({
      kind: "sgd",
      ...{ weights: span("weights"), gradient: span("gradient"), velocity: span("first") },
      ...{ rate: 0.05, momentum: 0.9, weightDecay: 0.01, gradientScale: 0.7 },
    }),
  };
  for (const [name, update] of Object.entries(updates))
    test(`updates weights by ${name} as the CPU does, without their leaving the device`, async () => {
      const [there, here] = [await updated(device, update), await updated(host, update)];
      for (const [i, value] of here.entries())
        assert.ok(Math.abs((there[i] as number) - value) <= 1e-6 * (1 + Math.abs(value)), `weight ${i}`);
    });

  for (const [name, text] of Object.entries({ mlp, tied }))
    test(`trains ${name} for twenty steps with the losses of the native engine, and the same bits again`, async () => {
      const native = await openExecutor({ kind: "native", workers: 1 });
      const twenty = { schedule: { ...schedule, steps: 20 } };
      const expected = await train(text, 1, native, twenty);
      await native.close();
      const [found, again] = [await train(text, 1, device, twenty), await train(text, 3, device, twenty)];
      assert.equal(found.losses.length, twenty.schedule.steps);
      assert.deepEqual(
        found.losses.map((loss) => loss.toFixed(5)),
        expected.losses.map((loss) => loss.toFixed(5)),
      );
      assert.deepEqual([...again.hashes].sort(), [...found.hashes].sort());
    });
});

describe("exact numerics on the GPU", () => {
  let device: Executor;
  before(async () => {
    device = await openExecutor({ kind: "exact-webgpu", workers: 1 });
  });
  after(() => device.close());

  test("are of the class of every processor", async () => {
    assert.equal(await device.numericsClass(), exactClass);
  });

  test("give a processor's bits in a block of the demo GPT, forward and backward", async () => {
    const host = openInlineExecutor(openExactEngine());
    const plan = compileText(readFileSync(new URL("../../examples/gpt-demo.yaml", import.meta.url), "utf8"));
    const { forward, backward } = buildTraining(plan, plan.vnodes[0] as VNodePlan, { microbatch: 1, lossScale: 1 });
    for (const [name, graph] of Object.entries({ forward, backward })) {
      if (graph === undefined) continue;
      const found = [];
      for (const executor of [device, host]) {
        executor.register(name, graph);
        found.push(await warmUp(executor, name, graph, []));
        executor.unregister(name);
      }
      assert.equal(found[0], found[1], name);
    }
    await host.close();
  });

  test("train a network with the bits of a processor, optimizer and all", async () => {
    const host = await openExecutor({ kind: "exact", workers: 2 });
    const steps = { ...schedule, steps: 3, validateEvery: 2, checkpointEvery: 3 };
    const [there, here] = [
      await train(tied, 1, device, { schedule: steps }),
      await train(tied, 3, host, { schedule: steps }),
    ];
    await host.close();
    assert.deepEqual(there.losses, here.losses);
    assert.deepEqual([...there.hashes].sort(), [...here.hashes].sort());
  });
});

type Span = { readonly memory: SharedBytes; readonly start: number; readonly length: number };

/** Weights after ten updates of a matrix that a graph has used, so that a device holds it. */
async function updated(executor: Executor, update: (span: (name: string) => Span, step: number) => KernelCall) {
  const shape = [48, 40];
  const length = 48 * 40;
  const blocks = new Map<string, SharedBytes>();
  const span = (name: string): Span => ({ memory: blocks.get(name) as SharedBytes, start: 0, length });
  const view = (name: string) => {
    const { buffer, offset } = blocks.get(name) as SharedBytes;
    return new Float32Array(buffer, offset, length);
  };
  for (const name of ["weights", "gradient", "first", "second"]) blocks.set(name, executor.allocate(4 * length));
  fillNormal(view("weights"), randomKey("update", "weights"), 0.05);
  const info = (name: string) => ({ name, dtype: "float32" as const, shape });
  const nodes = [{ op: "Neg", name: "n", inputs: ["w"], outputs: ["out"], attributes: {} }];
  executor.register("use", { name: "use", inputs: [info("w")], outputs: [info("out")], nodes, constants: {} });
  for (let step = 1; step <= 10; step++) {
    await executor.run("use", { w: { dtype: "float32", shape, data: view("weights") } });
    fillNormal(view("gradient"), randomKey("update", step), 0.01);
    executor.upload([span("gradient")]);
    await executor.kernel(update(span, step));
  }
  executor.unregister("use");
  await executor.download([span("weights")]);
  const weights = view("weights").slice();
  for (const block of blocks.values()) executor.free(block);
  return weights;
}
