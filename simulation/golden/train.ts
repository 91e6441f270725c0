// Trains a scenario in one place: the production numerics, process, batches and schedules of every VNode, with messages
// handed over at once and no network, store or time in between. What comes out is what any network must come to.

import { assert } from "../../src/core/assert.ts";
import type { VNodeId } from "../../src/core/ids.ts";
import { openBatches } from "../../src/data/batches.ts";
import type { Executor } from "../../src/engine/engine.ts";
import { compileText } from "../../src/network/compile.ts";
import { buildEvaluation, buildTraining } from "../../src/network/graphs/graphs.ts";
import type { Plan } from "../../src/network/plan.ts";
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
  const plan = compileText(scenario.definition);
  const computes = await computesOf(scenario, plan, executor);
  const { steps, microbatches, validateEvery } = scenario;
  const schedule = { steps, microbatches, validateEvery, validationMicrobatches, checkpointEvery: steps };
  const processes = new Map<VNodeId, Process<WireTensor, VNodeId>>();
  const queue: { readonly to: VNodeId; readonly event: Promise<Event> }[] = [];
  const post = (to: VNodeId, event: Event | Promise<Event>) => queue.push({ to, event: Promise.resolve(event) });
  for (const { id } of plan.vnodes) {
    processes.set(id, new Process({ role: roleOf(plan, id), schedule, line: 0, parallel: 1, persistsPendingMax: 9 }));
    post(id, { kind: "start" });
  }
  const hashes = new Map<string, string>();
  const [losses, validationLosses]: [number[], number[]] = [[], []];
  const perform = (vnode: VNodeId, effect: Effect<WireTensor, VNodeId>) => {
    const compute = computes.get(vnode) as VNodeCompute;
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
      case "ask":
        return post(effect.whom, { kind: "asked", names: effect.names, asker: vnode });
      case "deliver":
        return post(effect.asker, {
          ...{ kind: "arrived", ...effect.message, from: vnode },
          payload: lend(effect.message.payload),
        });
      case "publish":
        hashes.set(`${vnode} ${effect.step}`, effect.hash);
        return keepLoss(losses, effect.measures["loss"]);
      case "publishEvaluation":
        return keepLoss(validationLosses, effect.measures["loss"]);
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
  return { roots: Array.from({ length: steps }, (_, index) => rootAfter(index + 1)), losses, validationLosses };
}

const keeping = {
  keep: (tensor: WireTensor) => tensor,
  take: async (tensor: WireTensor) => tensor,
  borrow: async (tensor: WireTensor) => lend(tensor),
};

function keepLoss(into: number[], loss: number | undefined): void {
  if (loss !== undefined) into.push(loss);
}

async function computesOf(
  { data, steps, batch, microbatches, validateEvery, clipNorm }: Scenario,
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
  for (const vnode of plan.vnodes) {
    const compute = new VNodeCompute({
      name: vnode.id,
      plan: vnode,
      executor,
      training: buildTraining(plan, vnode, { microbatch: samples, lossScale: 1 / microbatches }),
      ...(validateEvery > 0 && { evaluation: buildEvaluation(plan, vnode, { microbatch: samples }) }),
      batches,
      settings: { seed: sessionSeed, steps, batch, microbatches, clipNorm, learningRate: sessionRate },
      data: plan,
    });
    await compute.initialise();
    computes.set(vnode.id, compute);
  }
  return computes;
}
