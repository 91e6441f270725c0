// A tiny network of processes for tests: compute is symbolic (every value is the hash of what it was made from), so
// that any wrong order, lost or doubled message shows in the hashes. Delivers in random order, with faults on demand.

import { strict as assert } from "node:assert";
import { sha256 } from "../core/hash.ts";
import type { EdgeId, Sha256, VNodeId } from "../core/ids.ts";
import { expandLanes } from "../network/lanes.ts";
import type { Plan, PlanEdge, VNodePlan } from "../network/plan.ts";
import { isCommon, type LanePlan, lanesAt, lineFrom, roundCount, roundOf, type ToldRound } from "../network/rounds.ts";
import type { Counted } from "./book.ts";
import type { Effect, ProcessEvent } from "./effects.ts";
import { isNumeric } from "./perform.ts";
import { type OpenProcess, openProcess, type VNodeProcess } from "./process.ts";
import { roleOf } from "./role.ts";
import type { Schedule } from "./schedule.ts";

export type Draw = (below: number) => number;

/** A small generator for tests; the network under test never sees it. */
export function drawFrom(seed: number): Draw {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * below);
  };
}

const hashOf = (...parts: unknown[]) => sha256(JSON.stringify(parts)).slice(0, 16);

export function symbolicVNode(id: string, role: VNodePlan["role"]): VNodePlan {
  const none = { inputs: [], outputs: [], results: [], parameters: [], chances: [], body: [] };
  const optimizer = { kind: "sgd", momentum: 0, weightDecay: 0 } as const;
  return { id: id as VNodeId, nodes: [id], role, optimizer, flopsPerSample: 1, savedBytesPerSample: 1, ...none };
}

export function symbolicPlan(vnodes: VNodePlan[], edges: PlanEdge[]): Plan {
  const none = { outputs: [], costs: [], metrics: [], colocations: [] };
  return { name: "symbolic", definition: "" as Sha256, vnodes, order: vnodes.map(({ id }) => id), edges, ...none };
}

interface Arrow {
  readonly from: number;
  readonly to: number;
  readonly kind: "activation" | "tie";
  readonly port: string;
}

/** Chains, branches and joins with ties, with parts that do not learn and ends that no cost judges. */
export function randomPlan(draw: Draw): Plan {
  const count = 1 + draw(7);
  const learns = Array.from({ length: count }, () => draw(4) > 0);
  const arrows = randomArrows(draw, count);
  for (const { from, to } of arrows) learns[to] ||= learns[from]!;
  const ties = arrows.filter(({ kind }) => kind === "tie");
  for (const { from, to } of ties) {
    learns[from] = true;
    learns[to] = true;
  }
  for (const { from, to } of arrows) learns[to] ||= learns[from]!;
  // Every end is a cost, but for one in four.
  const judged = learns.map((_, index) => {
    const end = !arrows.some(({ from, kind }) => from === index && kind === "activation");
    return end && (index === count - 1 || draw(4) > 0);
  });
  const costs = [...judged];
  for (let round = 0; round < count; round++) for (const { from, to } of arrows) judged[from] ||= judged[to]!;
  const vnodes = learns.map((learning, index) =>
    symbolicVNode(`v${index}`, costs[index] ? "loss" : learning && judged[index] ? "learns" : "passes"),
  );
  const edges = arrows.map(({ from, to, kind, port }): PlanEdge => {
    const gradient = learns[from]! && judged[to]!;
    const [source, target] = [vnodes[from]!.id, vnodes[to]!.id];
    const ports = { fromPort: kind === "tie" ? "w" : "out", toPort: port };
    const id = `${from}.${kind}>${to}.${port}` as EdgeId;
    return { id, kind, from: source, to: target, ...ports, shape: [1], wire: "float32", gradient };
  });
  return symbolicPlan(vnodes, edges);
}

/** A random network whose VNodes have parameters of random sizes, some smaller than a shard, some none. */
export function lanedPlan(seed: number, sync?: Schedule["sync"]): { plan: Plan; lanes: number } {
  const draw = drawFrom(seed + 77);
  const plan = randomPlan(drawFrom(seed));
  const lanes = 2 + draw(4);
  const weighted = plan.vnodes.map((vnode): VNodePlan => {
    const elements = [0, 5, 700, 5_000][draw(4)] as number;
    const initial = { kind: "constant", value: 0 } as const;
    const parameter = { name: "w", shape: [elements], initial, decay: false, precision: "float32" } as const;
    return elements === 0 ? vnode : { ...vnode, parameters: [parameter] };
  });
  return { plan: expandLanes({ ...plan, vnodes: weighted }, { lanes, ...(sync && { sync }) }), lanes };
}

function randomArrows(draw: Draw, count: number): Arrow[] {
  const arrows: Arrow[] = [];
  for (let to = 1; to < count; to++)
    // Mostly the nearest predecessor, so that chains are long; sometimes any, so that they branch.
    for (let index = draw(2); index >= 0; index--)
      arrows.push({ from: draw(3) > 0 ? to - 1 : draw(to), to, kind: "activation", port: `in${index}` });
  for (let tie = draw(3); tie > 0 && count > 1; tie--) {
    const [from, to] = [draw(count), draw(count)];
    if (from < to) arrows.push({ from, to, kind: "tie", port: `tie${tie}` });
  }
  return arrows;
}

export interface Faults {
  /** In percent of messages. */
  readonly lost: number;
  readonly repeated: number;
  /** How often a VNode is replaced, at random moments. */
  readonly crashes: number;
  /** The replaced owner goes on as if nothing had happened. */
  readonly zombies: boolean;
}

type Message = { kind: "arrived" } & ProcessEvent<string, VNodeId>;
type Parcel = { to: VNodeId; event: ProcessEvent<string, VNodeId> } | { run: () => void };

interface Instance {
  readonly process: VNodeProcess<string, VNodeId>;
  readonly compute: SymbolicCompute;
  owner: boolean;
  dead: boolean;
}

/** Values are names of how they were made. */
class SymbolicCompute {
  weights: string;
  #accumulated: string | undefined;
  #ownSum: string | undefined;
  /** Where the round began. */
  #anchor: string;
  /** Each lane's own, also where weights are common. */
  #moments: string;
  #counted: readonly Counted[] = [];
  readonly #saved = new Map<number, unknown>();
  readonly #gradients = new Map<number, string>();
  readonly #vnode: VNodeId;
  readonly #lane: number;

  readonly #schedule: Schedule;

  constructor({ id, copy }: VNodePlan, schedule: Schedule, state: string) {
    this.#vnode = copy?.of ?? id;
    this.#lane = copy?.lane ?? 0;
    this.#schedule = schedule;
    [this.weights, this.#anchor, this.#moments] = JSON.parse(state) as [string, string, string];
  }

  get state(): string {
    return JSON.stringify([this.weights, this.#anchor, this.#moments]);
  }

  perform(effect: Effect<string, VNodeId>): ProcessEvent<string, VNodeId> | undefined {
    const sealed = (...parts: unknown[]) => {
      const payload = hashOf(this.#vnode, this.weights, ...parts);
      return { hash: hashOf(payload), payload };
    };
    const ports = (of: (port: string) => { hash: string; payload: string }, ...names: string[]) =>
      new Map(names.map((name) => [name, of(name)]));
    switch (effect.kind) {
      case "forward": {
        const { step, microbatch, mode } = effect;
        const inputs = [this.#lane, step, microbatch, mode, effect.sample, [...effect.inputs].sort()];
        this.#saved.set(microbatch, inputs);
        const outputs = ports((port) => sealed("forward", port, inputs), "out");
        return { kind: "forwardDone", step, microbatch, outputs, measures: { loss: microbatch } };
      }
      case "backward": {
        const { step, microbatch, gradients } = effect;
        const made = [this.#saved.get(microbatch), gradients];
        this.#gradients.set(microbatch, sealed("parameters", made).payload);
        const names = ["in0", "in1"];
        return { kind: "backwardDone", step, microbatch, gradients: ports((port) => sealed(port, made), ...names) };
      }
      case "accumulate": {
        const gradient = this.#gradients.get(effect.microbatch)!;
        this.#accumulated = this.#accumulated === undefined ? gradient : hashOf(this.#accumulated, gradient);
        return undefined;
      }
      case "shareWeights":
        return { kind: "weightsShared", step: effect.step, weights: ports(() => sealed("share"), "w") };
      case "computeTieGradients": {
        const of = (port: string) => sealed("tie", port, this.#accumulated);
        return { kind: "tieGradientsDone", step: effect.step, gradients: ports(of, "tie1", "tie2") };
      }
      case "reduceParts": {
        this.#accumulated =
          effect.of === "outer" ? hashOf(this.#anchor, this.weights) : hashOf(this.#accumulated, effect.ties);
        this.#counted = effect.counted;
        const lanes = Array.from({ length: lanesMost }, (_, lane) => String(lane));
        const of = (shard: string) => sealed("part", shard, this.#accumulated);
        return { kind: "partsDone", step: effect.step, parts: ports(of, ...lanes) };
      }
      case "reduceSum": {
        const own = sealed("part", String(this.#lane), this.#accumulated).payload;
        const others = effect.parts.map(({ port, payload }): [number, string] => [Number(port), payload]);
        // Whatever order parts come in, a sum that goes by lanes is the same; one that goes by arrival is not.
        this.#ownSum = hashOf("sum", merged(others, [this.#lane, own]), effect.counted);
        return { kind: "sumDone", step: effect.step, sum: { hash: hashOf(this.#ownSum), payload: this.#ownSum } };
      }
      case "update":
        if (effect.sums.length > 0 || this.#ownSum !== undefined) this.#accumulated = this.#sums(effect.sums);
        this.#moments = hashOf(this.#moments, this.#accumulated);
        this.weights = hashOf(this.weights, this.#moments, effect.ties);
        this.#accumulated = undefined;
        if (effect.step + 1 === this.#schedule.sync?.after) this.#anchor = this.weights;
        return { kind: "updateDone", step: effect.step, hash: this.weights, measures: {} };
      case "rest":
        return { kind: "updateDone", step: effect.step, hash: this.weights, measures: {} };
      case "outer":
        assert.deepEqual(effect.counted, this.#counted, "whose work counts is known before parts are made");
        this.weights = hashOf("outer", this.#anchor, this.#sums(effect.sums), effect.counted);
        this.#anchor = this.weights;
        this.#accumulated = undefined;
        return { kind: "outerDone", step: effect.step, hash: this.weights };
      default:
        return undefined;
    }
  }

  #sums(others: readonly { readonly port: string; readonly payload: string }[]): string {
    const own: [number, string][] = this.#ownSum === undefined ? [] : [[this.#lane, this.#ownSum]];
    this.#ownSum = undefined;
    return hashOf(
      "sums",
      [...others.map(({ port, payload }): [number, string] => [Number(port), payload]), ...own].sort(),
    );
  }
}

/** More than any plan here has. */
const lanesMost = 8;

/** The own part among the others', which come in the order that the process gives. */
function merged(others: readonly [number, string][], own: [number, string]): [number, string][] {
  const at = others.findIndex(([lane]) => lane > own[0]);
  return at < 0 ? [...others, own] : [...others.slice(0, at), own, ...others.slice(at)];
}

/** Everybody was reminded this often and nothing came of it, even where some asks get lost. */
const quietTurnsMax = 400;

export class SymbolicNetwork {
  readonly #plan: Plan;
  readonly #schedule: Schedule;
  readonly #draw: Draw;
  readonly #faults: Faults;
  readonly #open: OpenProcess;
  readonly #owners = new Map<VNodeId, Instance>();
  readonly #all: { vnode: VNodeId; instance: Instance }[] = [];
  readonly #durable = new Map<VNodeId, Map<number, string>>();
  #parcels: Parcel[] = [];
  #line = 0;
  readonly #rounds: readonly ToldRound[];
  readonly #told = new Map<number, ToldRound>();
  #crashes: number;
  /** `vnode/step` to hash; a contradiction fails at once. */
  readonly hashes = new Map<string, string>();
  readonly evidence: string[] = [];

  /** `rounds`: what happens in them, where the schedule is elastic. Each is told when it may be, whole at once without faults. */
  constructor(
    plan: Plan,
    schedule: Schedule,
    draw: Draw,
    faults: Faults,
    open: OpenProcess = openProcess,
    rounds: readonly ToldRound[] = [],
  ) {
    this.#plan = plan;
    this.#schedule = schedule;
    this.#draw = draw;
    this.#faults = faults;
    this.#open = open;
    this.#crashes = faults.crashes;
    this.#rounds = rounds;
    if (faults === quiet) for (const told of rounds) this.#told.set(told.round, told);
    for (const { id, copy } of plan.vnodes)
      this.#durable.set(id, new Map([[0, JSON.stringify([hashOf("initial", copy?.of ?? id), "", ""])]]));
    for (const { id } of plan.vnodes) this.#start(id);
  }

  /** Runs until every VNode is done; throws if it hangs. */
  run(): Map<string, string> {
    let still = 0;
    for (let turn = 0; turn < 40_000 && still < quietTurnsMax; turn++) {
      const isDone = ({ id }: VNodePlan) => this.#owners.get(id)?.process.ended === "done";
      const isEnded = (vnode: VNodePlan) => isDone(vnode) || !this.#takesPart(vnode.id, this.#schedule.steps);
      if (this.#line === this.#schedule.steps && this.#plan.vnodes.every(isEnded)) return this.hashes;
      if (this.#crashes > 0 && this.#draw(60) === 0) this.#crash();
      if (this.#draw(3) === 0) this.#tellRounds();
      this.#remind();
      still = this.#parcels.length === 0 ? still + 1 : 0;
      this.#deliver();
    }
    const stuck = [...this.#owners].filter(([, { process }]) => process.ended !== "done");
    throw new Error(`hangs: ${stuck.map(([id, { process }]) => `${id} at ${process.currentStep}`).join(", ")}`);
  }

  /** Everybody when nothing moves, else now and then somebody, as impatient timers would. */
  #remind(): void {
    const impatient = this.#draw(50) === 0 ? [this.#all[this.#draw(this.#all.length)]!] : [];
    for (const { vnode, instance } of this.#parcels.length === 0 ? this.#all : impatient)
      this.#handle(vnode, instance, { kind: "overdue" });
  }

  #deliver(): void {
    const index = this.#draw(this.#parcels.length);
    const parcel = this.#parcels[index];
    if (parcel === undefined) return;
    this.#parcels[index] = this.#parcels[this.#parcels.length - 1]!;
    this.#parcels.pop();
    if ("run" in parcel) parcel.run();
    else {
      const owner = this.#owners.get(parcel.to);
      if (owner !== undefined) this.#handle(parcel.to, owner, parcel.event);
    }
  }

  #start(vnode: VNodeId): void {
    const role = roleOf(this.#plan, vnode);
    const process = this.#open<string, VNodeId>({
      role: { ...role, window: 1 + this.#draw(3) },
      schedule: this.#schedule,
      line: this.#line,
      parallel: 1 + this.#draw(3),
      persistsPendingMax: 1 + this.#draw(2),
      rounds: [...this.#told.values()],
    });
    const weights = this.#durable.get(vnode)?.get(this.#line);
    if (weights === undefined) {
      assert(!this.#takesPart(vnode, this.#line), `${vnode} has a state at the line ${this.#line}`);
      // Who has no part in a round starts where it ends.
      this.#owners.delete(vnode);
      return;
    }
    const own = this.#plan.vnodes.find(({ id }) => id === vnode) as VNodePlan;
    const instance = { process, compute: new SymbolicCompute(own, this.#schedule, weights), owner: true, dead: false };
    this.#owners.set(vnode, instance);
    this.#all.push({ vnode, instance });
    this.#handle(vnode, instance, { kind: "start" });
  }

  #crash(): void {
    this.#crashes--;
    this.#replace(this.#plan.vnodes[this.#draw(this.#plan.vnodes.length)]!.id, !this.#faults.zombies);
  }

  #replace(vnode: VNodeId, dead: boolean): void {
    const old = this.#owners.get(vnode);
    if (old !== undefined) [old.owner, old.dead] = [false, dead];
    this.#start(vnode);
  }

  #handle(vnode: VNodeId, instance: Instance, event: ProcessEvent<string, VNodeId>): void {
    if (instance.dead || instance.process.ended === "restart") return;
    for (const effect of instance.process.step(event)) this.#perform(vnode, instance, effect);
  }

  #perform(vnode: VNodeId, instance: Instance, effect: Effect<string, VNodeId>): void {
    if (isNumeric(effect)) {
      this.#parcels.push({ run: () => this.#finish(vnode, instance, effect) });
      return;
    }
    switch (effect.kind) {
      case "send":
      case "deliver": {
        const { name, to, hash, payload } = effect.message;
        this.#post(to, { kind: "arrived", name, hash, payload, from: vnode } as Message);
        break;
      }
      case "ask":
        this.#post(effect.whom, { kind: "asked", names: effect.names, asker: vnode });
        break;
      case "answer":
        if (effect.outcome === "gone") this.#post(effect.asker, { kind: "gone", step: effect.step });
        break;
      case "evidence":
        this.evidence.push(`${vnode}: ${JSON.stringify(effect)}`);
        break;
      case "publish": {
        const key = `${vnode}/${effect.step}`;
        assert.equal(this.hashes.get(key) ?? effect.hash, effect.hash, `${key} has one hash`);
        this.hashes.set(key, effect.hash);
        break;
      }
      case "persist":
        this.#persist(vnode, instance, effect.step, instance.compute.state);
        break;
      case "restart":
        if (instance.owner) this.#replace(vnode, true);
        break;
      case "accumulate":
        instance.compute.perform(effect);
        break;
      case "fail":
        throw new Error(effect.reason);
      case "receipt":
      case "collect":
      case "publishEvaluation":
      case "done":
        break;
    }
  }

  #finish(vnode: VNodeId, instance: Instance, effect: Effect<string, VNodeId>): void {
    if (instance.dead) return;
    const event = instance.compute.perform(effect);
    if (event !== undefined) this.#handle(vnode, instance, event);
  }

  get #lanes(): number {
    return this.#plan.vnodes[0]?.copy?.lanes ?? 1;
  }

  #laneOf(vnode: VNodeId): number {
    return this.#plan.vnodes.find(({ id }) => id === vnode)?.copy?.lane ?? 0;
  }

  #lanesAt(step: number): readonly number[] | undefined {
    if (this.#schedule.elastic !== "on") return this.#plan.vnodes.map(({ copy }) => copy?.lane ?? 0);
    return lanesAt({ ...this.#schedule, lanes: this.#lanes }, this.#told, step);
  }

  #takesPart(vnode: VNodeId, step: number): boolean {
    return this.#lanesAt(step)?.includes(this.#laneOf(vnode)) ?? false;
  }

  /** At a round's end those who had no part in it get the state of the first who had. */
  #giveStates(step: number): void {
    const lanes = this.#lanesAt(step) ?? [];
    if (this.#schedule.elastic !== "on" || !isCommon(this.#schedule, step)) return;
    for (const { id, copy } of this.#plan.vnodes) {
      if (lanes.includes(copy?.lane ?? 0)) continue;
      const giver = this.#plan.vnodes.find((one) => one.copy?.of === copy?.of && one.copy?.lane === lanes[0]);
      this.#durable.get(id)!.set(step, this.#durable.get(giver!.id)!.get(step)!);
    }
  }

  /** A plan comes before its round, a closing once all whose work counts are ready. */
  #tellRounds(): void {
    const next = this.#rounds.find(({ round }) => this.#told.get(round)?.counted === undefined);
    if (next === undefined) return;
    const { sync } = this.#schedule;
    const { counted, ...plan } = next;
    const { last } = roundOf({ steps: this.#schedule.steps, sync: sync! }, next.round);
    const isReady = this.#plan.vnodes.every(
      ({ id, copy }) => !counted?.includes(copy?.lane ?? 0) || this.#durable.get(id)!.has(last),
    );
    if (this.#told.has(next.round) && !isReady) return;
    this.#told.set(next.round, this.#told.has(next.round) ? next : plan);
    for (const { vnode, instance } of this.#all)
      this.#parcels.push({
        run: () => this.#handle(vnode, instance, { kind: "rounds", rounds: [...this.#told.values()] }),
      });
    // A round that is closed without late lanes may have a line that these kept from moving.
    this.#advanceLine();
  }

  #post(to: VNodeId, event: ProcessEvent<string, VNodeId>): void {
    if (this.#draw(100) < this.#faults.lost) return;
    this.#parcels.push({ to, event });
    if (this.#draw(100) < this.#faults.repeated) this.#parcels.push({ to, event });
  }

  #persist(vnode: VNodeId, instance: Instance, step: number, weights: string): void {
    this.#parcels.push({
      run: () => {
        if (instance.dead || !instance.owner) return;
        const durable = this.#durable.get(vnode)!;
        assert.equal(durable.get(step) ?? weights, weights, `${vnode} has one state at ${step}`);
        durable.set(step, weights);
        this.#handle(vnode, instance, { kind: "persisted", step });
        this.#advanceLine();
      },
    });
  }

  #advanceLine(): void {
    const ids = [...this.#durable.keys()];
    const steps = new Set(ids.flatMap((id) => [...this.#durable.get(id)!.keys()]));
    const isStored = (lane: number, step: number) =>
      ids.every((id) => this.#laneOf(id) !== lane || this.#durable.get(id)!.has(step));
    const times = { ...this.#schedule, lanes: this.#lanes };
    const line =
      this.#schedule.elastic === "on"
        ? lineFrom(times, this.#told, this.#line, [...steps], isStored)
        : Math.max(...[...steps].filter((step) => ids.every((id) => this.#durable.get(id)!.has(step))));
    if (line <= this.#line) return;
    this.#line = line;
    this.#giveStates(line);
    for (const id of ids) if (!this.#owners.has(id)) this.#start(id);
    for (const { vnode, instance } of this.#all)
      this.#parcels.push({ run: () => this.#handle(vnode, instance, { kind: "lineAdvanced", line }) });
  }
}

/** On machines whose bound for retained messages is reached whatever they hold. */
export const openWithoutRoom: OpenProcess = (options) => {
  const process = openProcess<never, never>(options);
  process.step({ kind: "full", full: true });
  return process;
};

export const quiet: Faults = { lost: 0, repeated: 0, crashes: 0, zombies: false };

/** Rounds in which some lanes learn more than others, some rest, some are late, and come back. */
export function elasticRounds(seed: number, schedule: Schedule, lanes: number): ToldRound[] {
  const draw = drawFrom(seed + 300_000);
  const { sync, steps } = schedule;
  if (sync === undefined) return [];
  return Array.from({ length: roundCount({ steps, sync }) }, (_, index) => {
    const round = roundOf({ steps, sync }, index);
    const all = Array.from({ length: lanes }, (_, lane) => lane);
    const some = (of: readonly number[]) => {
      const chosen = of.filter(() => draw(4) > 0);
      return chosen.length > 0 ? chosen : of.slice(-1);
    };
    const planned = some(all);
    const learned = round.last - round.first;
    const plan = (lane: number): LanePlan => {
      const count = 1 + draw(learned);
      const samples: LanePlan["samples"] = [[1_000 * index + 100 * lane, count * schedule.microbatches]];
      return { lane, steps: count, class: "", samples };
    };
    return { round: index, lanes: planned.map(plan), counted: some(planned) };
  });
}

/** With rounds that begin and end anywhere. */
export function roundSchedule(seed: number): Schedule & { readonly sync: NonNullable<Schedule["sync"]> } {
  const draw = drawFrom(seed + 900_000);
  const schedule = randomSchedule(seed);
  return { ...schedule, sync: { after: 1 + draw(schedule.steps - 2), every: 1 + draw(4) } };
}

export function randomSchedule(seed: number): Schedule {
  const draw = drawFrom(seed + 500_000);
  return {
    steps: 3 + draw(8),
    microbatches: 1 + draw(4),
    validateEvery: draw(4),
    validationMicrobatches: 1 + draw(3),
    checkpointEvery: 1 + draw(4),
  };
}
