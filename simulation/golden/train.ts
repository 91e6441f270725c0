// Trains a scenario in one place: the production numerics, process, batches and schedules of every VNode, with messages
// handed over at once and no network, store or time in between. What comes out is what any network must come to.

import { assert } from "../../src/core/assert.ts";
import type { VNodeId } from "../../src/core/ids.ts";
import { openBatches } from "../../src/data/batches.ts";
import type { Executor } from "../../src/engine/engine.ts";
import { compileText } from "../../src/network/compile.ts";
import { buildEvaluation, buildTraining } from "../../src/network/graphs/graphs.ts";
import { expandLanes, laneShare, lanesOf } from "../../src/network/lanes.ts";
import type { Plan, VNodePlan } from "../../src/network/plan.ts";
import { stepRoot } from "../../src/orchestrator/sessions/line.ts";
import { openMemoryBlobs } from "../../src/store/memory.ts";
import { VNodeCompute } from "../../src/vnode/compute.ts";
import type { Effect, ProcessEvent } from "../../src/vnode/effects.ts";
import { performNumeric } from "../../src/vnode/perform.ts";
import { Process } from "../../src/vnode/process.ts";
import { roleOf } from "../../src/vnode/role.ts";
import { giveBack, lend, type WireTensor } from "../../src/vnode/wire.ts";
import { storeData } from "../maintainer.ts";
import { type Scenario, sessionRate, sessionSeed, validationMicrobatches } from "../scenarios.ts";

export interface Golden {
  /** After each step, from the first on. */
  readonly roots: readonly string[];
  readonly losses: readonly number[];
  readonly validationLosses: readonly number[];
}

type Event = ProcessEvent<WireTensor, VNodeId>;

export async function trainInOnePlace(scenario: Scenario, executor: Executor): Promise<Golden> {
  const network = compileText(scenario.definition);
  const plan = expandLanes(network, scenario);
  const computes = await computesOf(scenario, network, plan, executor);
  const { steps, validateEvery } = scenario;
  const share = laneShare({ ...scenario, validationMicrobatches });
  const schedule = { steps, validateEvery, ...share, checkpointEvery: steps };
  const processes = new Map<VNodeId, Process<WireTensor, VNodeId>>();
  const queue: { readonly to: VNodeId; readonly event: Promise<Event> }[] = [];
  const post = (to: VNodeId, event: Event | Promise<Event>) => queue.push({ to, event: Promise.resolve(event) });
  for (const { id } of plan.vnodes) {
    processes.set(id, new Process({ role: roleOf(plan, id), schedule, line: 0, parallel: 1, persistsPendingMax: 9 }));
    post(id, { kind: "start" });
  }
  const hashes = new Map<string, string>();
  const [losses, validationLosses] = [new Means(lanesOf(scenario)), new Means(lanesOf(scenario))];
  const perform = (vnode: VNodeId, effect: Effect<WireTensor, VNodeId>) => {
    const compute = computes.get(vnode) as VNodeCompute;
    switch (effect.kind) {
      case "forward":
      case "backward":
      case "shareWeights":
      case "computeTieGradients":
      case "reduceParts":
      case "reduceSum":
      case "outer":
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
      case "ask":
        return post(effect.whom, { kind: "asked", names: effect.names, asker: vnode });
      case "deliver":
        return post(effect.asker, {
          ...{ kind: "arrived", ...effect.message, from: vnode },
          payload: lend(effect.message.payload),
        });
      case "publish":
        hashes.set(`${vnode} ${effect.step}`, effect.hash);
        return losses.add(vnode, effect.step, effect.measures["loss"]);
      case "publishEvaluation":
        return validationLosses.add(vnode, effect.step, effect.measures["loss"]);
      case "persist":
        return post(vnode, { kind: "persisted", step: effect.step });
      default:
        return undefined;
    }
  };
  for (let next = queue.shift(); next !== undefined; next = queue.shift())
    for (const effect of (processes.get(next.to) as Process<WireTensor, VNodeId>).step(await next.event))
      perform(next.to, effect);
  for (const [vnode, { ended }] of processes) assert(ended === "done", `VNode ${vnode} is done, not "${ended}"`);
  for (const compute of computes.values()) await compute.close();
  const ids = plan.vnodes.map(({ id }) => id).sort();
  const rootAfter = (step: number) => stepRoot(ids.map((id) => hashes.get(`${id} ${step}`) as string));
  const roots = Array.from({ length: steps }, (_, index) => rootAfter(index + 1));
  return { roots, losses: losses.all(), validationLosses: validationLosses.all() };
}

const keeping = {
  keep: (tensor: WireTensor) => tensor,
  take: async (tensor: WireTensor) => tensor,
  borrow: async (tensor: WireTensor) => lend(tensor),
};

/** Of what each lane measures, added in lane order. */
class Means {
  readonly #lanes: number;
  readonly #byStep = new Map<number, Map<VNodeId, number>>();

  constructor(lanes: number) {
    this.#lanes = lanes;
  }

  add(vnode: VNodeId, step: number, value: number | undefined): void {
    if (value === undefined) return;
    const known = this.#byStep.get(step) ?? new Map<VNodeId, number>();
    this.#byStep.set(step, known.set(vnode, value));
  }

  all(): number[] {
    return [...this.#byStep]
      .sort(([a], [b]) => a - b)
      .map(([, values]) => [...values].sort(([a], [b]) => (a < b ? -1 : 1)))
      .map((values) => values.reduce((sum, [, value]) => sum + value / this.#lanes, 0));
  }
}

async function computesOf(
  { data, steps, batch, microbatches, sync, validateEvery, clipNorm }: Scenario,
  network: Plan,
  plan: Plan,
  executor: Executor,
): Promise<Map<VNodeId, VNodeCompute>> {
  const blobs = openMemoryBlobs();
  const context = plan.inputs?.shape[0];
  const batches = openBatches({
    manifest: await storeData(data, { inner: blobs }),
    fetchBlob: (hash) => blobs.datasets.get(hash),
    cacheBytesMax: 1 << 20,
    seed: sessionSeed,
    split: "all",
    validationSplit: validateEvery > 0 ? "all" : "",
    batch,
    microbatches,
    ...(context !== undefined && { context }),
  });
  const samples = batch / microbatches;
  const computes = new Map<VNodeId, VNodeCompute>();
  for (const { id, copy } of plan.vnodes) {
    const vnode = network.vnodes.find((one) => one.id === (copy?.of ?? id)) as VNodePlan;
    const compute = new VNodeCompute({
      name: id,
      plan: vnode,
      copy,
      executor,
      training: buildTraining(plan, vnode, { microbatch: samples, lossScale: 1 / microbatches }),
      ...(validateEvery > 0 && { evaluation: buildEvaluation(plan, vnode, { microbatch: samples }) }),
      batches,
      settings: {
        seed: sessionSeed,
        steps,
        batch,
        microbatches,
        validationMicrobatches,
        clipNorm,
        learningRate: sessionRate,
        ...(sync && { sync }),
      },
      data: plan,
    });
    await compute.initialise();
    computes.set(id, compute);
  }
  return computes;
}
