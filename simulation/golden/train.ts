// Trains a scenario in one place: the production numerics, process, batches and schedules of every VNode, with messages
// handed over at once and no network, store or time in between. What comes out is what any network must come to.

import { assert } from "../../src/core/assert.ts";
import type { Sha256, VNodeId } from "../../src/core/ids.ts";
import { openBatches } from "../../src/data/batches.ts";
import type { Manifest } from "../../src/data/manifest.ts";
import type { Executor } from "../../src/engine/engine.ts";
import { compileText } from "../../src/network/compile.ts";
import { buildEvaluation, buildTraining } from "../../src/network/graphs/graphs.ts";
import { expandLanes, inLane, laneOf, laneShare, lanesOf } from "../../src/network/lanes.ts";
import type { Plan, VNodePlan } from "../../src/network/plan.ts";
import { lanesAt, type Round, roundCount, roundOf, type ToldRound } from "../../src/network/rounds.ts";
import type { SessionIdentity } from "../../src/network/settings/session.ts";
import { stepRoot } from "../../src/orchestrator/sessions/line.ts";
import type { StateImage } from "../../src/states/cut.ts";
import { copiedImage, memoryState } from "../../src/states/in-memory.ts";
import { openMemoryBlobs } from "../../src/store/memory.ts";
import { VNodeCompute } from "../../src/vnode/compute.ts";
import { type InOnePlace, runInOnePlace } from "../../src/vnode/one-place.ts";
import { Process } from "../../src/vnode/process.ts";
import { roleOf } from "../../src/vnode/role.ts";
import { storeData } from "../maintainer.ts";
import { type Scenario, sessionRate, sessionSeed, validationMicrobatches } from "../scenarios.ts";

export interface Golden {
  /** After each step, from the first on. */
  readonly roots: readonly string[];
  readonly losses: readonly number[];
  readonly validationLosses: readonly number[];
}

/** What was recorded of a session that was elastic. */
export interface Recorded {
  readonly rounds: readonly ToldRound[];
  /** Where a lane that the records put into a class is computed; undefined: where all are. */
  readonly executorOf?: (numericsClass: string) => Executor | undefined;
  /** Of a session that is none of the simulator's. */
  readonly settings?: Pick<SessionIdentity, "seed" | "learningRate">;
  /** And is evaluated on other data than it learns from. */
  readonly validation?: Pick<SessionIdentity, "split" | "validationSplit" | "validationMicrobatches">;
  /** Data that is stored somewhere already. */
  readonly stored?: { readonly manifest: Manifest; fetchBlob(hash: Sha256): Promise<Uint8Array> };
  /** Hears what each VNode measures where weights are evaluated. */
  readonly onEvaluated?: (vnode: VNodeId, step: number, loss: number) => void;
}

/** `recorded`: then roots are those that follow from these records alone. */
export async function trainInOnePlace(
  scenario: Scenario,
  executor: Executor,
  {
    rounds,
    executorOf = () => undefined,
    stored,
    settings,
    validation = onAll,
    onEvaluated = () => {},
  }: Partial<Recorded> = {},
): Promise<Golden> {
  const network = compileText(scenario.definition);
  const plan = expandLanes(network, scenario);
  const run: OnePlace = {
    ...{ scenario, network, plan, stored, settings, validation, onEvaluated, hashes: new Map(), states: new Map() },
    ...{ losses: new Means(lanesOf(scenario)), validationLosses: new Means(lanesOf(scenario)) },
  };
  const told = new Map((rounds ?? []).map((one) => [one.round, one]));
  for (const { from, to, known } of stretchesOf(scenario, rounds)) {
    const plans = from < (scenario.sync?.after ?? 0) ? [] : (known?.at(-1)?.lanes ?? []);
    const executorFor = (vnode: VNodeId) =>
      executorOf(plans.find(({ lane }) => lane === laneOf(vnode))?.class ?? "") ?? executor;
    // Who has no part in a round goes on from the state of the first who has.
    const lanes = lanesAt(scenario, told, to) ?? [];
    const ids = plan.vnodes
      .filter(({ copy }) => rounds === undefined || lanes.includes(copy?.lane ?? 0))
      .map(({ id }) => id);
    await trainStretch(run, ids, from, known, executorFor);
    for (const { id } of plan.vnodes)
      if (rounds !== undefined && !ids.includes(id))
        run.states.set(id, run.states.get(inLane(id, lanes[0] ?? 0)) as StateImage);
  }
  const { steps } = scenario;
  const rootAfter = (step: number) => {
    const lanes = rounds && lanesAt(scenario, told, step);
    const ids = plan.vnodes.map(({ id }) => id).filter((id) => lanes?.includes(laneOf(id)) ?? true);
    return stepRoot(ids.sort().map((id) => run.hashes.get(`${id} ${step}`) as string));
  };
  const roots = Array.from({ length: steps }, (_, index) => rootAfter(index + 1));
  return { roots, losses: run.losses.all(), validationLosses: run.validationLosses.all() };
}

/** The simulator's sessions. */
const onAll = { split: "all", validationSplit: "all", validationMicrobatches };

interface OnePlace {
  readonly scenario: Scenario;
  readonly network: Plan;
  readonly plan: Plan;
  readonly stored: Recorded["stored"];
  readonly settings: Recorded["settings"];
  readonly validation: NonNullable<Recorded["validation"]>;
  readonly onEvaluated: NonNullable<Recorded["onEvaluated"]>;
  readonly hashes: Map<string, string>;
  /** Where each VNode is, between two rounds. */
  readonly states: Map<VNodeId, StateImage>;
  readonly losses: Means;
  readonly validationLosses: Means;
}

/** Everything at once, or what lies between two moments at which lanes come and go. */
function stretchesOf({ steps, sync }: Scenario, rounds?: readonly ToldRound[]) {
  if (rounds === undefined || sync === undefined) return [{ from: 0, to: steps, known: undefined }];
  const all = Array.from({ length: roundCount({ steps, sync }) }, (_, index) => roundOf({ steps, sync }, index));
  const before = { from: 0, to: sync.after, known: [] as readonly ToldRound[] };
  const of = ({ index, first, last }: Round) => ({
    from: first,
    to: last + 1,
    known: rounds.filter(({ round }) => round <= index),
  });
  return [before, ...all.map(of)];
}

/** A long training must not keep every message of it. */
const storedEvery = 20;

/** Processes stop by themselves where they are not told what comes next. */
async function trainStretch(
  run: OnePlace,
  ids: readonly VNodeId[],
  line: number,
  rounds: readonly ToldRound[] | undefined,
  executorFor: (vnode: VNodeId) => Executor,
): Promise<void> {
  const { scenario, plan, hashes, losses, validationLosses, validation } = run;
  const computes = await computesOf(run, ids, line, executorFor);
  const { steps, validateEvery } = scenario;
  const share = laneShare({ ...scenario, ...validation });
  const elastic = rounds && ({ elastic: "on" } as const);
  const checkpointEvery = rounds === undefined ? Math.min(steps, storedEvery) : steps;
  const schedule = { steps, validateEvery, ...share, ...elastic, checkpointEvery };
  const told = rounds && { rounds };
  const vnodes = new Map<VNodeId, InOnePlace>();
  for (const [id, compute] of computes) {
    const options = { role: roleOf(plan, id), schedule, line, parallel: 1, persistsPendingMax: 9, ...told };
    vnodes.set(id, { process: new Process(options), compute });
  }
  await runInOnePlace(plan, vnodes, {
    published: (vnode, { step, hash, measures }) => {
      hashes.set(`${vnode} ${step}`, hash);
      losses.add(vnode, step, measures["loss"]);
    },
    evaluated: (vnode, { step, measures }) => {
      const { loss } = measures;
      if (loss !== undefined) run.onEvaluated(vnode, step, loss);
      validationLosses.add(vnode, step, loss);
    },
    persist: async (vnode, step) => {
      run.states.set(vnode, copiedImage((computes.get(vnode) as VNodeCompute).state.snapshot(step)));
    },
  });
  for (const [vnode, { process, compute }] of vnodes) {
    const { ended } = process;
    if (rounds === undefined) assert(ended === "done", `VNode ${vnode} is done, not "${ended}"`);
    await compute.close();
  }
}

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
  { scenario, network, plan, stored, settings, validation, states }: OnePlace,
  ids: readonly VNodeId[],
  line: number,
  executorFor: (vnode: VNodeId) => Executor,
): Promise<Map<VNodeId, VNodeCompute>> {
  const { data, steps, batch, microbatches, sync, validateEvery, clipNorm } = scenario;
  const { seed, learningRate } = settings ?? { seed: sessionSeed, learningRate: sessionRate };
  const { split, validationSplit } = validation;
  const blobs = openMemoryBlobs();
  const context = plan.inputs?.shape[0];
  const batches = openBatches({
    manifest: stored?.manifest ?? (await storeData(data, { inner: blobs })),
    fetchBlob: (hash) => stored?.fetchBlob(hash) ?? blobs.datasets.get(hash),
    cacheBytesMax: 1 << 20,
    seed,
    split,
    validationSplit: validateEvery > 0 ? validationSplit : "",
    batch,
    microbatches,
    ...(context !== undefined && { context }),
  });
  const samples = batch / microbatches;
  const computes = new Map<VNodeId, VNodeCompute>();
  for (const { id, copy } of plan.vnodes) {
    if (!ids.includes(id)) continue;
    const vnode = network.vnodes.find((one) => one.id === (copy?.of ?? id)) as VNodePlan;
    const compute = new VNodeCompute({
      name: id,
      plan: vnode,
      copy,
      executor: executorFor(id),
      training: buildTraining(plan, vnode, { microbatch: samples, lossScale: 1 / microbatches }),
      ...(validateEvery > 0 && { evaluation: buildEvaluation(plan, vnode, { microbatch: samples }) }),
      batches,
      settings: {
        seed,
        steps,
        batch,
        microbatches,
        validationMicrobatches: validation.validationMicrobatches,
        clipNorm,
        learningRate,
        ...(sync && { sync }),
      },
      data: plan,
    });
    if (line === 0) await compute.initialise();
    else await compute.restore((await memoryState(states.get(id) as StateImage)).reader, line);
    computes.set(id, compute);
  }
  return computes;
}
