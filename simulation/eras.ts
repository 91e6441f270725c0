// Worlds in which the last machines of a numerics class go and do not come back: the session may go on in another class from its line. What
// it comes to depends on the step at which it changed, and on nothing else: no crash on the way, no owner, no moment.

import type { SessionRecord } from "../src/orchestrator/records/sessions.ts";
import { baselineOf } from "./baselines.ts";
import { calmRun, fleetOf, otherClass, type RunSettings, usualBuild, usualClass } from "./draw.ts";
import { noFaults, type TimedFault } from "./faults.ts";
import { NetworkRun, type RunOptions } from "./network-run.ts";
import type { SeedReport } from "./report.ts";
import { type Scenario, scenarios } from "./scenarios.ts";
import { SeededChance } from "./world/chance.ts";

export interface EraWorld {
  readonly seed: number;
  readonly status: SessionRecord["status"];
  readonly eras: NonNullable<SessionRecord["eras"]>;
  readonly numericsClass: string;
  readonly roots: ReadonlyMap<number, string>;
  readonly violations: readonly string[];
  readonly report: SeedReport;
}

/** Everything heals after it; by then a session with eras is done. */
const windowMs = 400_000;

function drawWorld(seed: number, scenario: Scenario): RunSettings {
  const chance = new SeededChance(seed, "eras");
  const calm = calmRun(scenario, fleetOf(4, 2), { checkpointEvery: 2, replicas: 1, eras: "on" });
  const gone = (host: string): TimedFault => ({
    kind: "crash",
    host,
    silent: chance.happens(0.5),
    durationMs: windowMs,
  });
  const goneMs = chance.between(300, 2_500);
  const passing = Array.from({ length: chance.whole(0, 4) }, () => ({
    atMs: chance.between(0, 90_000),
    fault: {
      kind: "crash",
      host: chance.pick(["p3", "p4", "o1"]),
      silent: chance.happens(0.5),
      durationMs: 1_500,
    } as const,
  }));
  const last = [
    { atMs: goneMs, fault: gone("p1") },
    { atMs: goneMs + chance.between(0, 500), fault: gone("p2") },
  ];
  return {
    ...calm,
    computeMs: chance.between(15, 60),
    delayMs: chance.between(0.5, 10),
    // Two of each: a session begins in either.
    builds: new Map(["p3", "p4"].map((name) => [name, { ...usualBuild, numericsClass: otherClass }])),
    patienceMs: 200_000,
    plan: { ...noFaults(seed), windowMs, timed: [...last, ...passing].sort((a, b) => a.atMs - b.atMs) },
  };
}

export async function eraWorld(seed: number, scenario: Scenario, options: RunOptions = {}): Promise<EraWorld> {
  const run = new NetworkRun(seed, drawWorld(seed, scenario), () => undefined, options);
  const report = await run.finish();
  const [session] = run.records.sessions();
  return {
    seed,
    status: session?.status ?? "failed",
    eras: session?.eras ?? [],
    numericsClass: session?.numericsClass ?? "",
    roots: run.result.roots,
    violations: report.violations.map(({ kind, message }) => `${kind}: ${message}`),
    report,
  };
}

/** What contradicts the promise, over several worlds of one scenario. */
export async function eraFaults(scenario: Scenario, worlds: readonly EraWorld[]): Promise<string[]> {
  const found: string[] = [];
  const roots = async (numericsClass: string) => (await baselineOf(scenario, numericsClass)).roots;
  const [usual, other] = [await roots(usualClass), await roots(otherClass)];
  const byEras = new Map<string, EraWorld>();
  for (const world of worlds) {
    const [era, ...more] = world.eras;
    const name = `seed ${world.seed}`;
    if (world.status !== "done") found.push(`${name} is ${world.status}`);
    if (more.length > 0) found.push(`${name} has ${world.eras.length} eras before the last`);
    const first = (era?.class ?? world.numericsClass) === usualClass ? usual : other;
    const end = era?.to ?? scenario.steps;
    for (const [step, root] of world.roots)
      if (step <= end && root !== first.get(step))
        found.push(`${name}: step ${step} of the first era has another root`);
    // The last era is the class that it has now.
    const eras = JSON.stringify([...world.eras, world.numericsClass]);
    const alike = byEras.get(eras);
    if (alike && alike.roots.get(scenario.steps) !== world.roots.get(scenario.steps))
      found.push(`${name} and seed ${alike.seed} have the same eras and other roots`);
    byEras.set(eras, world);
  }
  return found;
}

/** A world with something broken in it: whatever differs from the sound one of the same seed and eras is a divergence. */
export async function brokenEraWorld(seed: number, options: RunOptions): Promise<SeedReport> {
  const scenario = scenarios[0] as Scenario;
  const sound = await eraWorld(seed, scenario);
  const already = [...sound.violations, ...(await eraFaults(scenario, [sound]))];
  if (already.length > 0) throw new Error(`the sound world has faults, too: ${already.join("; ")}`);
  const broken = await eraWorld(seed, scenario, options);
  const { report } = broken;
  const differing = await eraFaults(scenario, [sound, broken]);
  const found = differing.map((message) => ({ kind: "divergence", atMs: report.virtualMs, message }) as const);
  return { ...report, violations: [...report.violations, ...found] };
}
