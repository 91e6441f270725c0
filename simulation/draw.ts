// What a seed draws: sessions with their networks and policies, models to be served, a fleet of mixed builds, speeds
// and faults. Decided as a whole before the run, so that it can be read and shortened.

import { bits } from "../src/core/bits.ts";
import { elementCount } from "../src/core/tensor.ts";
import { compileText } from "../src/network/compile.ts";
import { expandLanes } from "../src/network/lanes.ts";
import type { Plan } from "../src/network/plan.ts";
import { drawPlan, type FaultPlan, type Fleet, noFaults } from "./faults.ts";
import type { Behaviour } from "./lies/byzantine.ts";
import type { SessionPolicy } from "./maintainer.ts";
import { laned, rounds, type Scenario, scenarios, speech } from "./scenarios.ts";
import { SeededChance } from "./world/chance.ts";

/** One session of the world, and what its maintainer does with it. */
export interface SessionWish {
  readonly scenario: Scenario;
  readonly policy: SessionPolicy;
  /** When its maintainer comes. */
  readonly atMs: number;
  /** Once it is trained, it is served and asked this many questions. */
  readonly questions: number;
  /** Its answers are checked. */
  readonly audit?: "on";
}

/** What one PNode's build computes. */
export interface Build {
  readonly bits: number;
  /** In which it is fastest. */
  readonly numericsClass: string;
  /** Served models answer in this class, where it is another; for baselines alone. */
  readonly answering?: string;
  /** It computes in the class of all machines, too. */
  readonly common?: boolean;
}

export interface RunSettings {
  readonly sessions: readonly SessionWish[];
  readonly fleet: Fleet;
  /** Of PNodes that differ from the usual one. */
  readonly builds: ReadonlyMap<string, Build>;
  /** Of PNodes that compute or say something else than they should. */
  readonly behaviours?: ReadonlyMap<string, Behaviour>;
  /** Hosts that relay for others; orchestrators among them carry tensors too. */
  readonly relays?: readonly string[];
  /** Those an operator vouches for, from the beginning. */
  readonly trusted?: readonly string[];
  /** What is found out after the faults have ended takes this much longer than usual. */
  readonly patienceMs?: number;
  /** Of one run of a graph. */
  readonly computeMs: number;
  /** Calls that one PNode computes at a time; undefined: as many as come. */
  readonly workers?: number;
  readonly statePartBytes?: number;
  /** One way. */
  readonly delayMs: number;
  /** Of each machine's line; undefined: without bound. */
  readonly bytesPerMs?: number;
  readonly windowBytes: number;
  readonly retainedBytesMax: number;
  /** What fits into a PNode's memory: few, so that networks spread and sessions wait for each other. */
  readonly vnodesPerPNode: number;
  readonly plan: FaultPlan;
}

export const usualClass = "reference";
export const usualBuild: Build = { bits, numericsClass: usualClass };
/** Rounds differently, as another processor would. */
export const otherClass = "reference-other";
/** What every machine can compute in, as the portable engine. */
export const commonClass = "reference-common";
/** A newer release that changed its bits. */
export const otherBits = bits + 1;

/** Share of the seeds whose PNodes are not all of one build. */
const mixedShare = 0.3;
const servedShare = 0.3;
/** Share of the seeds with one more session, which has lanes. */
const lanesShare = 0.2;
/** So that questions meet faults too. */
const servedWindowMinMs = 25_000;

/** `onlyLanes`: one session, which has lanes, in whatever fleet and faults the seed draws. */
export function drawRun(seed: number, onlyLanes = false): RunSettings {
  const chance = new SeededChance(seed, "run");
  const fleet = fleetOf(chance.whole(2, 8), chance.whole(1, 3));
  const first = { ...drawSession(chance, chance.pick(scenarios), fleet), atMs: 0 };
  const company = new SeededChance(seed, "company");
  const others = Array.from({ length: company.pick([0, 0, 1, 1, 2, 3]) }, () => ({
    ...drawSession(company, company.pick(scenarios), fleet),
    atMs: company.skewed(1, 8_000),
  }));
  const served = company.happens(servedShare)
    ? [{ ...drawSession(company, speech, fleet), atMs: 0, questions: company.whole(3, 8) }]
    : [];
  const lanes = new SeededChance(seed, "lanes");
  const isWithLanes = lanes.happens(lanesShare);
  const inLanes = {
    ...drawSession(lanes, lanes.pick([...laned, ...rounds]), fleet),
    atMs: onlyLanes ? 0 : lanes.skewed(1, 3_000),
  };
  const sessions = onlyLanes ? [inLanes] : [first, ...others, ...served, ...(isWithLanes ? [inLanes] : [])];
  const builds = drawBuilds(seed, fleet);
  const plan = drawPlan(seed, fleet, served.length > 0 ? servedWindowMinMs : 0);
  return {
    sessions,
    fleet,
    builds,
    vnodesPerPNode: neededRoom(sessions, fleet, builds, plan) + chance.pick([0, 1, 1, 2, 8]),
    computeMs: chance.skewed(10, 150),
    delayMs: chance.skewed(0.5, 30),
    windowBytes: chance.pick([2_000, 64_000, 1_000_000]),
    retainedBytesMax: chance.pick([500, 4_000, 1_000_000]),
    plan,
  };
}

function drawSession(chance: SeededChance, scenario: Scenario, fleet: Fleet): SessionWish {
  const replicas = fleet.pnodes.length >= 3 && chance.happens(0.2) ? 2 : 1;
  const every = chance.pick([1, 2, 3, 4]);
  // Where nobody says how often, rounds are stored at their ends alone.
  const checkpointEvery = scenario.sync && every === 4 ? 0 : every;
  return { scenario, policy: { checkpointEvery, replicas }, atMs: 0, questions: 0 };
}

/** At least one PNode is of the usual build. */
function drawBuilds(seed: number, { pnodes }: Fleet): Map<string, Build> {
  const chance = new SeededChance(seed, "builds");
  if (!chance.happens(mixedShare)) return new Map();
  const others = pnodes.slice(1).filter(() => chance.happens(0.5));
  return new Map(
    others.map((name) => [
      name,
      chance.happens(0.5) ? { ...usualBuild, bits: otherBits } : { ...usualBuild, numericsClass: otherClass },
    ]),
  );
}

/** Held for all seeds of a thread, so that no simulated process has to compile them again. */
const plans = new Map<string, Plan>();

export function planOf(scenario: Scenario): Plan {
  const { definition } = scenario;
  const plan = plans.get(definition) ?? expandLanes(compileText(definition), scenario);
  plans.set(definition, plan);
  return plan;
}

/** What all copies of a network send each other in one step to add their gradients up. */
export function reducedBytesOf(scenario: Scenario): number {
  const { edges } = planOf(scenario);
  return edges.reduce(
    (sum, { kind, shape }) => sum + (kind === "reduce" || kind === "outer" ? 2 * 4 * elementCount(shape) : 0),
    0,
  );
}

export function vnodesOf(scenario: Scenario): number {
  return planOf(scenario).vnodes.length;
}

/** Each session alone must find room, in whichever class it begins; together they may have to wait for each other. */
function neededRoom(
  sessions: readonly SessionWish[],
  { pnodes }: Fleet,
  builds: ReadonlyMap<string, Build>,
  plan: FaultPlan,
): number {
  // A cut may leave one PNode out for good; the others must have room for all.
  const cuts = plan.timed.filter(({ fault }) => fault.kind === "cut").length;
  const usable = builds.size > 0 ? 1 : Math.max(1, pnodes.length - cuts);
  const largest = sessions.map(({ scenario, policy }) => policy.replicas * planOf(scenario).vnodes.length);
  return Math.ceil(Math.max(...largest) / usable);
}

export function fleetOf(pnodes: number, orchestrators: number): Fleet {
  const names = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}${index + 1}`);
  return { pnodes: names("p", pnodes), orchestrators: names("o", orchestrators) };
}

/** A world in which nothing happens to one session. */
export function calmRun(scenario: Scenario, fleet: Fleet, policy: SessionPolicy): RunSettings {
  return {
    sessions: [{ scenario, policy, atMs: 0, questions: 0 }],
    fleet,
    builds: new Map(),
    computeMs: 5,
    delayMs: 1,
    windowBytes: 1_000_000,
    retainedBytesMax: 1_000_000,
    vnodesPerPNode: 100,
    plan: noFaults(1),
  };
}
