import { strict as assert } from "node:assert";
import { describe, it, test } from "node:test";
import { openInlineExecutor } from "../engine/executor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { arrayDevice, arrayDeviceEngine } from "../engine/webgpu/array-device.testing.ts";
import { compileText } from "../network/compile.ts";
import { buildTraining } from "../network/graphs/graphs.ts";
import { VNodeCompute } from "./compute.ts";
import { keeping } from "./one-place.ts";
import { performNumeric } from "./perform.ts";
import { roleOf } from "./role.ts";
import { batchesFor, learning, mlp, samples, schedule, tied, train } from "./training-run.testing.ts";
import type { WireTensor } from "./wire.ts";

const inline = () => openInlineExecutor(openReferenceEngine());

for (const [name, text] of Object.entries({ mlp, tied }))
  describe(`training of a network: ${name}`, () => {
    it("lowers the loss and evaluates when due", async () => {
      const { losses, evaluations } = await train(text, 1, inline());
      assert.ok(losses.at(-1)! < 0.9 * losses[0]!, `${losses}`);
      assert.equal(losses.length, schedule.steps);
      assert.equal(evaluations.length, 3);
      for (const { correct, counted } of evaluations) assert.ok(correct! >= 0 && correct! <= counted!);
    });

    it("gives the same hashes however many microbatches run side by side", async () => {
      const [one, three] = [await train(text, 1, inline()), await train(text, 3, inline())];
      assert.deepEqual([...three.hashes].sort(), [...one.hashes].sort());
    });

    it("goes on from a checkpoint as if it had never stopped", async () => {
      const whole = await train(text, 1, inline());
      const rest = await train(text, 2, inline(), { line: 8, from: whole });
      assert.equal(rest.hashes.size, whole.hashes.size / 3);
      for (const [key, hash] of rest.hashes) assert.equal(hash, whole.hashes.get(key), key);
    });

    it("gives the same hashes where a device holds weights, gradients and moments, and gives its memory back", async () => {
      const device = arrayDevice();
      const whole = await train(text, 1, inline());
      const executor = openInlineExecutor(arrayDeviceEngine(device));
      const there = await train(text, 3, executor);
      assert.deepEqual([...there.hashes].sort(), [...whole.hashes].sort());
      assert.deepEqual(there.losses, whole.losses);
      assert.deepEqual(there.snapshots, whole.snapshots);
      await executor.numericsClass();
      assert.equal(device.traffic.resident, 0);
      const rest = await train(text, 2, executor, { line: 8, from: there });
      for (const [key, hash] of rest.hashes) assert.equal(hash, whole.hashes.get(key), key);
    });
  });

test("a value for several VNodes is packed once and kept once", async () => {
  const plan = compileText(`
name: fork
nodes:
  - { id: first, type: linear, config: { in_dim: 4, out_dim: 6, colocate_group: a } }
  - { id: fork, type: broadcast, config: { colocate_group: a } }
  - { id: left, type: linear, config: { in_dim: 6, out_dim: 6 } }
  - { id: right, type: linear, config: { in_dim: 6, out_dim: 6 } }
  - { id: join, type: add, config: { colocate_group: b } }
  - { id: last, type: linear, config: { in_dim: 6, out_dim: 3, colocate_group: b } }
  - { id: loss, type: cost, config: { cost_function: ce_logits, colocate_group: b } }
edges:
  - { from: first, to: fork }
  - { from: fork, to: left }
  - { from: fork, from_slot: 1, to: right }
  - { from: left, to: join }
  - { from: right, to: join, to_slot: 1 }
  - { from: join, to: last }
  - { from: last, to: loss }
costs: [{ name: loss, node_id: loss }]
`);
  const vnode = plan.vnodes.find(({ nodes }) => nodes.includes("fork"))!;
  const build = { microbatch: samples, lossScale: 1 };
  const compute = new VNodeCompute({
    ...{ name: "fork", plan: vnode, executor: inline(), training: buildTraining(plan, vnode, build) },
    ...{
      batches: batchesFor(plan),
      settings: { ...learning, steps: 1, batch: samples, microbatches: 1, validationMicrobatches: 0 },
      data: plan,
    },
  });
  await compute.initialise();
  const kept: WireTensor[] = [];
  const keep = (tensor: WireTensor) => {
    kept.push(tensor);
    return tensor;
  };
  const effect = { kind: "forward", step: 0, microbatch: 0, mode: "training", inputs: new Map() } as const;
  const done = await performNumeric(compute, roleOf(plan, vnode.id), { ...keeping, keep }, effect);
  assert.ok(done.kind === "forwardDone");
  const [one, other] = [...done.outputs.values()];
  assert.equal(done.outputs.size, 2);
  assert.equal(one, other);
  assert.equal(kept.length, 1);
  await compute.close();
});
