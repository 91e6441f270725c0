// Quiet worlds in which the fence decides alone: a PNode that hosts all of a session has to give half of it to one that came later and stands
// still just then, and hears nothing of that, while its own calls get through. Elsewhere a PNode that does not hear who owns its VNodes now is
// cut off altogether, owns nothing of the session any more and may store nothing of it, or hears it from the new owner: it is never refused twice.

import { calmRun, fleetOf, type RunSettings } from "./draw.ts";
import { noFaults } from "./faults.ts";
import { type Scenario, scenarios } from "./scenarios.ts";
import { SeededChance } from "./world/chance.ts";

/** When orchestrators look whether sessions should move. */
const moveMs = 30_000;
const longer: readonly Scenario[] = scenarios
  .filter(({ name }) => name === "chain" || name === "branch")
  .map((scenario) => ({ ...scenario, name: `${scenario.name}-for-a-minute`, steps: 90 }));

export function toldNothingWorld(seed: number): RunSettings {
  const chance = new SeededChance(seed, "told nothing");
  const fleet = fleetOf(2, 1);
  const timed = [
    {
      atMs: 1,
      fault: { kind: "crash", host: "p2", silent: false, durationMs: chance.between(5_000, 20_000) } as const,
    },
    {
      atMs: moveMs - chance.between(100, 1_000),
      fault: { kind: "told nothing", host: "p1", by: fleet.orchestrators } as const,
    },
    // Else it would ask for what it needs, and the first one would hear from it who owns what now.
    { atMs: moveMs - chance.between(10, 50), fault: { kind: "pause", host: "p2", durationMs: 2_000 } as const },
  ];
  return {
    ...calmRun(chance.pick(longer), fleet, { checkpointEvery: 1, replicas: 1, spread: 2 }),
    computeMs: chance.between(40, 60),
    delayMs: chance.between(1, 8),
    plan: { ...noFaults(seed), windowMs: 60_000, timed },
  };
}
