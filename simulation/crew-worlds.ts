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
  /** One disk after the other is lost, each with all that was on it. */
  "disks are lost",
  /** A state is held by two when both die, and the others come to its step only when they are known to be dead. */
  "holders die",
] as const;

export type CrewAim = (typeof crewAims)[number];

/** Long enough to live through what happens. */
const steps = 18;
const longer: readonly Scenario[] = scenarios
  .filter(({ name }) => name !== "residual")
  .map((scenario) => ({ ...scenario, name: `${scenario.name}-longer`, steps }));

/** A step takes longer than it takes to find a death. Several of them: who keeps what follows from a session's id. */
const slower: readonly Scenario[] = [3, 4, 5, 6].flatMap((slowSteps) =>
  scenarios
    .filter(({ name }) => name === "chain")
    .map((scenario) => ({ ...scenario, name: `${scenario.name}-slower-${slowSteps}`, steps: slowSteps })),
);

type Timed = { atMs: number; fault: TimedFault };

export function crewWorld(seed: number, aim: CrewAim): RunSettings {
  const chance = new SeededChance(seed, `crew ${aim}`);
  const fleet = fleetOf(chance.whole(5, 6), chance.whole(1, 2));
  const isSlow = aim === "holders die";
  const scenario = chance.pick(isSlow ? slower : longer);
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
        policy: { checkpointEvery: isSlow ? 1 : chance.pick([1, 2, 3]), replicas: 1, autonomy: "on" },
        atMs: 0,
        questions: 0,
      },
    ],
    fleet,
    builds: new Map(others.map((name) => [name, { ...usualBuild, numericsClass: otherClass }])),
    computeMs: isSlow ? chance.between(3_500, 4_500) : chance.between(250, 400),
    delayMs: chance.between(1, 8),
    windowBytes: 1_000_000,
    retainedBytesMax: 1_000_000,
    // Two have room for all of it, so nobody hosts everything from the start.
    vnodesPerPNode: isSlow ? 1 : Math.ceil(count / 2),
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
    case "disks are lost":
      // Between two of them there is time to come back and to be given what the crew keeps.
      return fleet.pnodes
        .toSorted(() => chance.uniform() - 0.5)
        .map((host, index) => ({
          atMs: goneMs + 3_000 + 6_000 * index + chance.between(0, 1_500),
          fault: { kind: "disk lost", host, durationMs: chance.between(300, 1_000) },
        }));
    case "holders die":
      return [{ atMs: after(1_000, 6_000), fault: { kind: "holders die" } }];
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
