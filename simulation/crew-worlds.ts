// Quiet worlds in which one rule of a crew decides alone. Sessions are longer than elsewhere, all orchestrators go, and then one kind of
// thing happens to the PNodes that are left: worlds full of every fault rarely come to the point where a single rule matters.

import { fleetOf, otherClass, type RunSettings, usualBuild, vnodesOf } from "./draw.ts";
import { type FaultPlan, type Fleet, noFaults, type TimedFault, untilFinished } from "./faults.ts";
import { type Scenario, scenarios } from "./scenarios.ts";
import { SeededChance } from "./world/chance.ts";

export const crewAims = [
  /** An owner dies for good. */
  "owner dies",
  /** An owner stands still until it was taken over, and goes on. */
  "owner stands still",
  /** The crew falls apart in two and finds together again. */
  "split",
  /** One after the other dies, until two are left. */
  "few are left",
  /** Some of the crew round otherwise, and an owner dies. */
  "other class",
] as const;

export type CrewAim = (typeof crewAims)[number];

/** Long enough to live through what happens. */
const steps = 18;
const longer: readonly Scenario[] = scenarios
  .filter(({ name }) => name !== "residual")
  .map((scenario) => ({ ...scenario, name: `${scenario.name}-longer`, steps }));

type Timed = { atMs: number; fault: TimedFault };

export function crewWorld(seed: number, aim: CrewAim): RunSettings {
  const chance = new SeededChance(seed, `crew ${aim}`);
  const fleet = fleetOf(chance.whole(5, 6), chance.whole(1, 2));
  const scenario = chance.pick(longer);
  const count = vnodesOf(scenario);
  const goneMs = chance.between(3_000, 6_000);
  const isForGood = aim !== "owner dies" || chance.happens(0.5);
  const durationMs = isForGood ? untilFinished : chance.between(14_000, 30_000);
  const gone: Timed = { atMs: goneMs, fault: { kind: "orchestrators gone", hosts: fleet.orchestrators, durationMs } };
  const happens = faultsOf(aim, goneMs, fleet, chance);
  const plan: FaultPlan = { ...noFaults(seed), windowMs: 90_000, timed: [gone, ...happens] };
  const others = aim === "other class" ? fleet.pnodes.slice(2) : [];
  return {
    sessions: [
      {
        scenario,
        policy: { checkpointEvery: chance.pick([1, 2, 3]), replicas: 1, autonomy: "on" },
        atMs: 0,
        questions: 0,
      },
    ],
    fleet,
    builds: new Map(others.map((name) => [name, { ...usualBuild, numericsClass: otherClass }])),
    computeMs: chance.between(250, 400),
    delayMs: chance.between(1, 8),
    windowBytes: 1_000_000,
    retainedBytesMax: 1_000_000,
    // Two have room for all of it, so nobody hosts everything from the start.
    vnodesPerPNode: Math.ceil(count / 2),
    plan: { ...plan, timed: plan.timed.toSorted((a, b) => a.atMs - b.atMs) },
  };
}

function faultsOf(aim: CrewAim, goneMs: number, fleet: Fleet, chance: SeededChance): Timed[] {
  const busy = () => `busy/${chance.uniform()}`;
  const after = (low: number, high: number) => goneMs + chance.between(low, high);
  switch (aim) {
    case "owner dies":
    case "other class":
      return [
        { atMs: after(3_000, 9_000), fault: { kind: "crash", host: busy(), silent: false, durationMs: untilFinished } },
      ];
    case "owner stands still":
      return [2_500, 10_000].map((fromMs) => ({
        atMs: after(fromMs, fromMs + 5_000),
        fault: { kind: "pause", host: busy(), durationMs: chance.between(3_000, 6_000) },
      }));
    case "split":
      return [2_500, 22_000].map((fromMs) => {
        const pnodes = fleet.pnodes.toSorted(() => chance.uniform() - 0.5);
        const at = chance.whole(2, pnodes.length - 2);
        const durationMs = chance.between(7_000, 14_000);
        const sides = { from: pnodes.slice(0, at), to: pnodes.slice(at) };
        return { atMs: after(fromMs, fromMs + 4_000), fault: { kind: "split", ...sides, durationMs } };
      });
    case "few are left": {
      // Between two deaths there is time to copy what the dead one held.
      const dying = fleet.pnodes.toSorted(() => chance.uniform() - 0.5).slice(2);
      return dying.map((host, index) => ({
        atMs: goneMs + 3_000 + 5_000 * index + chance.between(0, 1_500),
        fault: { kind: "crash", host, silent: chance.happens(0.3), durationMs: untilFinished },
      }));
    }
  }
}
