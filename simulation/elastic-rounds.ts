// Worlds of one session whose lanes come and go: as many machines as lanes with room for one lane each, some of them slow or away for
// long. What must come out follows from the records of its rounds, trained again in one place.

import type { Executor } from "../src/engine/engine.ts";
import { openInlineExecutor } from "../src/engine/executor.ts";
import { openReferenceEngine } from "../src/engine/reference.ts";
import { isCommon } from "../src/network/rounds.ts";
import {
  type Build,
  commonClass,
  drawRun,
  fleetOf,
  otherClass,
  type RunSettings,
  usualBuild,
  usualClass,
  vnodesOf,
} from "./draw.ts";
import { drawPlan, type TimedFault } from "./faults.ts";
import { trainInOnePlace } from "./golden/train.ts";
import { NetworkRun, type RunOptions } from "./network-run.ts";
import type { SeedReport } from "./report.ts";
import { elasticScenarios } from "./scenarios.ts";
import { SeededChance } from "./world/chance.ts";
import { computingLike } from "./world/executor.ts";

export interface ElasticReport extends SeedReport {
  /** Lanes in all rounds that were planned and did not count, that had no part, and that took fewer steps than others. */
  readonly late: number;
  readonly resting: number;
  readonly unequal: number;
  /** Rounds whose lanes were of several classes. */
  readonly classes: number;
}

/** Longer than a round waits for a lane. */
const awayMsLeast = 12_000;
const awayMsMost = 40_000;

/** Machines of several classes, of which some or all compute in the common one as well. */
export type Mixed = "some" | "everybody";

function mixedBuilds(seed: number, { pnodes }: RunSettings["fleet"], mixed: Mixed): Map<string, Build> {
  const chance = new SeededChance(seed, "classes");
  const others = new Set([chance.pick(pnodes), ...pnodes.filter(() => chance.happens(0.3))]);
  return new Map(
    pnodes.map((name) => {
      const numericsClass = others.has(name) && others.size < pnodes.length ? otherClass : usualClass;
      return [name, { ...usualBuild, numericsClass, common: mixed === "everybody" || chance.happens(0.6) }];
    }),
  );
}

export function drawElastic(seed: number, mixed?: Mixed): RunSettings {
  const isMixed = mixed !== undefined;
  const chance = new SeededChance(seed, "elastic");
  const scenario = chance.pick(elasticScenarios);
  const { lanes = 1 } = scenario;
  const fleet = fleetOf(lanes + chance.pick([0, 0, 1]), chance.whole(1, 2));
  const plan = drawPlan(seed, fleet, 30_000);
  const away = Array.from({ length: chance.whole(0, 3) }, () => {
    const host = chance.pick(fleet.pnodes);
    const durationMs = chance.between(awayMsLeast, awayMsMost);
    const fault: TimedFault = chance.happens(0.5)
      ? { kind: "crash", host, silent: chance.happens(0.5), durationMs }
      : { kind: "slow", host, factor: chance.between(2, 6), durationMs };
    return { atMs: chance.between(0, 25_000), fault };
  });
  // Two that never reach each other again: a lane that counts may then find no place for good.
  const healed = plan.timed.filter(({ fault }) => fault.kind !== "cut");
  const timed = [...healed, ...away].sort((a, b) => a.atMs - b.atMs);
  const policy = { checkpointEvery: chance.pick([1, 2, 4, 0]), replicas: 1, elastic: "on" } as const;
  const builds = isMixed ? mixedBuilds(seed, fleet, mixed) : new Map<string, Build>();
  const others = [...builds.values()].filter(({ numericsClass }) => numericsClass === otherClass).length;
  // All lanes begin together, in one class: either may have to hold them all.
  const alike = isMixed ? Math.max(1, Math.min(others, fleet.pnodes.length - others)) : lanes;
  return {
    ...drawRun(seed, true),
    sessions: [{ scenario, policy: { ...policy, ...(isMixed && { numerics: "mixed" }) }, atMs: 0, questions: 0 }],
    fleet,
    builds,
    vnodesPerPNode: Math.ceil(vnodesOf(scenario) / alike) + chance.pick([0, 0, 1]),
    patienceMs: 400_000,
    plan: { ...plan, timed },
  };
}

export async function runElastic(seed: number, options: RunOptions = {}, mixed?: Mixed): Promise<ElasticReport> {
  const settings = drawElastic(seed, mixed);
  const run = new NetworkRun(seed, settings, () => undefined, options);
  const report = await run.finish();
  const [id] = run.sessionIds;
  const { rounds } = run.roundsOf(id ?? "");
  const lanes = settings.sessions[0]?.scenario.lanes ?? 1;
  const late = rounds.reduce((sum, one) => sum + one.lanes.length - (one.counted?.length ?? one.lanes.length), 0);
  const resting = rounds.reduce((sum, one) => sum + lanes - one.lanes.length, 0);
  const unequal = rounds.filter((one) => new Set(one.lanes.map(({ steps }) => steps)).size > 1).length;
  const classes = rounds.filter((one) => new Set(one.lanes.map((lane) => lane.class)).size > 1).length;
  const counts = { late, resting, unequal, classes };
  if (report.violations.length > 0) return { ...report, ...counts };
  const message = await differs(settings, run);
  const violation = { kind: "divergence", atMs: report.virtualMs, message: message ?? "" } as const;
  return { ...report, ...counts, violations: message === undefined ? [] : [violation] };
}

/** What the records of its rounds alone lead to is what came out. */
async function differs(settings: RunSettings, run: NetworkRun): Promise<string | undefined> {
  const scenario = settings.sessions[0]?.scenario;
  const [id] = run.sessionIds;
  if (scenario === undefined || id === undefined) return "there is no session";
  const [session] = run.records.sessions();
  const executors = new Map(
    [usualClass, otherClass, commonClass].map((numericsClass) => {
      const engine = computingLike({ ...usualBuild, numericsClass }, openReferenceEngine());
      return [numericsClass, openInlineExecutor(engine)];
    }),
  );
  // What lanes learned together was in the session's class, each round in that of the lane's plan.
  const common = executors.get(session?.numericsClass ?? "") as Executor;
  const executorOf = (numericsClass: string) => executors.get(numericsClass);
  const wrong: string[] = [];
  const onEvaluated = (vnode: string, step: number, loss: number) => {
    const told = run.result.metrics.get(`${vnode} validation_loss ${step}`);
    if (told !== undefined && told !== loss)
      wrong.push(`the validation loss of ${vnode} after step ${step} is ${told}, its records lead to ${loss}`);
  };
  const { rounds } = run.roundsOf(id);
  const { roots } = await trainInOnePlace(scenario, common, { rounds, executorOf, onEvaluated });
  for (const executor of executors.values()) await executor.close();
  if (wrong.length > 0) return wrong[0];
  const isWrong = (root: string, index: number) => run.result.roots.get(index + 1) !== root;
  const at = roots.findIndex((root, index) => isCommon(scenario, index + 1) && isWrong(root, index));
  return at < 0
    ? undefined
    : `the root of step ${at + 1} is ${run.result.roots.get(at + 1)?.slice(0, 12)}, its records lead to ${roots[at]?.slice(0, 12)}`;
}
