import { strict as assert } from "node:assert";
import { describe, it, test } from "node:test";
import type { VNodeId } from "../core/ids.ts";
import { fillNormal, randomKey } from "../core/numbers/random.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Executor } from "../engine/engine.ts";
import { openInlineExecutor } from "../engine/executor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { compileText } from "../network/compile.ts";
import { buildEvaluation, buildTraining } from "../network/graphs/graphs.ts";
import type { Plan } from "../network/plan.ts";
import type { StateImage } from "../states/cut.ts";
import { copiedImage, memoryState } from "../states/memory.testing.ts";
import { VNodeCompute } from "./compute.ts";
import type { Effect, Measures, ProcessEvent } from "./effects.ts";
import { performNumeric } from "./perform.ts";
import { Process } from "./process.ts";
import { roleOf } from "./role.ts";
import type { Schedule } from "./schedule.ts";
import { giveBack, lend, type WireTensor } from "./wire.ts";

const mlp = `
name: mlp
nodes:
  - { id: hidden, type: linear, config: { in_dim: 6, out_dim: 8 } }
  - { id: act, type: tanh }
  - { id: drop, type: dropout, config: { rate: 0.2 } }
  - { id: out, type: linear, config: { in_dim: 8, out_dim: 3 } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges:
  - { from: hidden, to: act }
  - { from: act, to: drop }
  - { from: drop, to: out }
  - { from: out, to: loss }
costs: [{ name: loss, node_id: loss }]
`;

const tied = `
name: tied
precision: bf16
nodes:
  - { id: table, type: embedder, config: { vocab_size: 11, dim: 4, seq_len: 5, shared_weight_alias: words, optimizer: adam } }
  - { id: norm, type: layernorm, config: { dim: 4 } }
  - { id: head, type: linear, config: { in_dim: 4, tie_weight_alias: words } }
  - { id: loss, type: cost, config: { cost_function: ce_logits } }
edges:
  - { from: table, to: norm }
  - { from: norm, to: head }
  - { from: head, to: loss }
costs: [{ name: loss, node_id: loss }]
`;

const schedule: Schedule = {
  steps: 12,
  microbatches: 3,
  validateEvery: 4,
  validationMicrobatches: 2,
  checkpointEvery: 4,
};
const samples = 4;
const learning = {
  seed: 5,
  clipNorm: 1,
  learningRate: { schedule: "constant", base: 0.05, warmupSteps: 0, finalShare: 0 },
} as const;

/** Always the same few samples, so that the loss falls fast. */
function batchesFor(plan: Plan) {
  return {
    field: async (name: "inputs" | "labels", { micro }: { micro: number }): Promise<Tensor> => {
      const { shape, wire, below } = plan[name]!;
      const whole = [samples, ...shape];
      const count = whole.reduce((product, size) => product * size, 1);
      const noise = new Float32Array(count);
      fillNormal(noise, randomKey("batch", micro), 1);
      if (wire === "float32") return { dtype: "float32", shape: whole, data: noise };
      const ids = Int32Array.from(
        { length: count },
        (_, index) => (7 * index + micro + (name === "labels" ? 1 : 0)) % (below ?? 3),
      );
      return { dtype: "int32", shape: whole, data: ids };
    },
  };
}

interface Run {
  readonly hashes: Map<string, string>;
  readonly losses: number[];
  readonly evaluations: Measures[];
  readonly snapshots: Map<string, StateImage>;
}

/** All VNodes of a plan in one place, messages handed over at once. */
async function train(text: string, parallel: number, executor: Executor, line = 0, from?: Run): Promise<Run> {
  const plan = compileText(text);
  const run: Run = { hashes: new Map(), losses: [], evaluations: [], snapshots: new Map() };
  const processes = new Map<VNodeId, Process<WireTensor, VNodeId>>();
  const computes = new Map<VNodeId, VNodeCompute>();
  const events: { to: VNodeId; event: Promise<ProcessEvent<WireTensor, VNodeId>> }[] = [];
  const post = (to: VNodeId, event: ProcessEvent<WireTensor, VNodeId> | Promise<ProcessEvent<WireTensor, VNodeId>>) =>
    events.push({ to, event: Promise.resolve(event) });
  const build = { microbatch: samples, lossScale: 1 / schedule.microbatches };
  for (const vnode of plan.vnodes) {
    const compute = new VNodeCompute({
      name: vnode.id,
      plan: vnode,
      executor,
      training: buildTraining(plan, vnode, build),
      evaluation: buildEvaluation(plan, vnode, build),
      batches: batchesFor(plan),
      settings: { ...learning, ...schedule, batch: samples * schedule.microbatches },
      data: plan,
    });
    if (from === undefined) await compute.initialise();
    else await compute.restore((await memoryState(from.snapshots.get(`${vnode.id}/${line}`)!)).reader, line);
    const role = roleOf(plan, vnode.id);
    processes.set(vnode.id, new Process({ role, schedule, line, parallel, persistsPendingMax: 9 }));
    computes.set(vnode.id, compute);
    post(vnode.id, { kind: "start" });
  }
  const perform = (vnode: VNodeId, effect: Effect<WireTensor, VNodeId>) => {
    const compute = computes.get(vnode)!;
    switch (effect.kind) {
      case "forward":
      case "backward":
      case "shareWeights":
      case "computeTieGradients":
      case "update":
        return post(vnode, performNumeric(compute, roleOf(plan, vnode), keeping, effect));
      case "accumulate":
        return compute.accumulate(effect.microbatch);
      case "send":
        return post(effect.message.to, {
          ...{ kind: "arrived", ...effect.message, from: vnode },
          payload: lend(effect.message.payload),
        });
      case "collect":
        return effect.released.forEach(giveBack);
      case "publish":
        run.hashes.set(`${vnode}/${effect.step}`, effect.hash);
        if (effect.measures["loss"] !== undefined) run.losses.push(effect.measures["loss"]);
        return;
      case "publishEvaluation":
        if (effect.measures["loss"] !== undefined) run.evaluations.push(effect.measures);
        return;
      case "persist":
        run.snapshots.set(`${vnode}/${effect.step}`, copiedImage(compute.state.snapshot(effect.step)));
        return post(vnode, { kind: "persisted", step: effect.step });
      default:
        return;
    }
  };
  for (let next = events.shift(); next !== undefined; next = events.shift())
    for (const effect of processes.get(next.to)!.step(await next.event)) perform(next.to, effect);
  for (const [vnode, process] of processes) assert.equal(process.ended, "done", `${vnode} is done`);
  for (const compute of computes.values()) await compute.close();
  return run;
}

const keeping = {
  keep: (tensor: WireTensor) => tensor,
  take: async (tensor: WireTensor) => tensor,
  borrow: async (tensor: WireTensor) => lend(tensor),
};
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
      const rest = await train(text, 2, inline(), 8, whole);
      assert.equal(rest.hashes.size, whole.hashes.size / 3);
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
    ...{ batches: batchesFor(plan), settings: { ...learning, steps: 1, batch: samples, microbatches: 1 }, data: plan },
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
