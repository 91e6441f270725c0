// A whole network's VNodes trained in one place on any executor: messages are handed over at once. For tests that compare executors,
// orders and restarts by their hashes.

import { assert } from "../core/assert.ts";
import type { VNodeId } from "../core/ids.ts";
import { fillNormal, randomKey } from "../core/numbers/random.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Executor } from "../engine/engine.ts";
import { compileText } from "../network/compile.ts";
import { buildEvaluation, buildTraining } from "../network/graphs/graphs.ts";
import { expandLanes, laneShare, originalOf } from "../network/lanes.ts";
import type { Plan } from "../network/plan.ts";
import type { LearningSettings } from "../network/settings/session.ts";
import type { StateImage } from "../states/cut.ts";
import { copiedImage, memoryState } from "../states/in-memory.ts";
import { VNodeCompute } from "./compute.ts";
import type { Measures } from "./effects.ts";
import type { BatchSource } from "./feeds.ts";
import { type InOnePlace, runInOnePlace } from "./one-place.ts";
import { Process } from "./process.ts";
import { roleOf } from "./role.ts";
import type { Schedule } from "./schedule.ts";
import type { WireTensor } from "./wire.ts";

export const mlp = `
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

export const tied = `
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

export const schedule: Schedule = {
  steps: 12,
  microbatches: 3,
  validateEvery: 4,
  validationMicrobatches: 2,
  checkpointEvery: 4,
};
export const samples = 4;
export const learning = {
  seed: 5,
  clipNorm: 1,
  learningRate: { schedule: "constant", base: 0.05, warmupSteps: 0, finalShare: 0 },
} as const;

/** Always the same few samples, so that the loss falls fast. */
export function batchesFor(plan: Plan) {
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

export interface Run {
  readonly hashes: Map<string, string>;
  readonly losses: number[];
  readonly evaluations: Measures[];
  readonly snapshots: Map<string, StateImage>;
}

export interface TrainOptions {
  /** Where it starts, with the states of an earlier run. */
  readonly line?: number;
  readonly from?: Run;
  /** Of all lanes together. */
  readonly schedule?: Schedule;
  /** Hears of each step's loss when it is known. */
  readonly onLoss?: (loss: number) => void;
  readonly lanes?: number;
  /** Instead of those that the loss falls fast with. */
  readonly batches?: BatchSource;
  /** Samples of a microbatch that `batches` gives. */
  readonly samples?: number;
  /** Instead of those of the seed, by parameter. */
  readonly weights?: ReadonlyMap<string, Float32Array>;
  readonly learning?: Pick<LearningSettings, "seed" | "clipNorm" | "learningRate">;
}

/** All VNodes of a plan in one place, messages handed over at once. */
export async function train(
  text: string,
  parallel: number,
  executor: Executor,
  options: TrainOptions = {},
): Promise<Run> {
  const { line = 0, from, schedule: asked = schedule, lanes = 1, weights, learning: by = learning } = options;
  const network = compileText(text);
  const plan = expandLanes(network, { lanes, ...(asked.sync && { sync: asked.sync }) });
  const each = { ...asked, ...laneShare({ ...asked, lanes }) };
  const microbatch = options.samples ?? samples;
  const run: Run = { hashes: new Map(), losses: [], evaluations: [], snapshots: new Map() };
  const vnodes = new Map<VNodeId, InOnePlace>();
  const build = { microbatch, lossScale: 1 / asked.microbatches };
  for (const vnode of plan.vnodes) {
    const original = originalOf(network, vnode);
    const compute = new VNodeCompute({
      name: vnode.id,
      plan: original,
      copy: vnode.copy,
      executor,
      training: buildTraining(plan, original, build),
      evaluation: buildEvaluation(plan, original, build),
      batches: options.batches ?? batchesFor(plan),
      settings: { ...by, ...asked, batch: microbatch * asked.microbatches },
      data: plan,
    });
    if (from === undefined) await compute.initialise();
    else await compute.restore((await memoryState(from.snapshots.get(`${vnode.id}/${line}`)!)).reader, line);
    for (const [name, tensor] of weights === undefined ? [] : [...compute.state.tensors, ...compute.state.frozen])
      (tensor.data as Float32Array).set(weights?.get(name) as Float32Array);
    const role = roleOf(plan, vnode.id);
    const process = new Process<WireTensor, VNodeId>({ role, schedule: each, line, parallel, persistsPendingMax: 9 });
    vnodes.set(vnode.id, { process, compute });
  }
  const take = (image: StateImage) => ({ image: copiedImage(image), taken: Promise.resolve() });
  await runInOnePlace(plan, vnodes, {
    published: (vnode, { step, hash, measures: { loss } }) => {
      run.hashes.set(`${vnode}/${step}`, hash);
      if (loss === undefined) return;
      run.losses.push(loss);
      options.onLoss?.(loss);
    },
    evaluated: (_, { measures }) => {
      if (measures["loss"] !== undefined) run.evaluations.push(measures);
    },
    persist: async (vnode, step) => {
      const { state } = (vnodes.get(vnode) as InOnePlace).compute;
      run.snapshots.set(`${vnode}/${step}`, (await state.take(step, take)).image);
    },
  });
  for (const [vnode, { process }] of vnodes) assert(process.ended === "done", `${vnode} is done`);
  for (const { compute } of vnodes.values()) await compute.close();
  return run;
}
