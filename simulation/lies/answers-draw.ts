// What a seed draws where machines lie about answers: a small network is trained honestly and served, and one machine is not as it
// should be. Most worlds have the usual faults on top.

import { calmRun, fleetOf, type RunSettings } from "../draw.ts";
import { drawPlan } from "../faults.ts";
import { speech } from "../scenarios.ts";
import { SeededChance } from "../world/chance.ts";
import { answering, type Behaviour } from "./byzantine.ts";

/** A replica that lost a machine is placed anew, and its newcomers are tried. */
const patienceMs = 600_000;
const faultyShare = 0.3;

/** `certain`: how the machines behave that get the first places, in worlds without other faults; for mutants. */
export function drawAnswers(seed: number, certain?: Behaviour): RunSettings {
  const chance = new SeededChance(seed, "answers");
  const fleet = fleetOf(chance.whole(6, 9), chance.whole(1, 2));
  const calm = calmRun(speech, fleet, { checkpointEvery: chance.pick([2, 4]), replicas: 1 });
  const sessions = calm.sessions.map((wish) => ({
    ...wish,
    questions: certain ? 8 : chance.whole(4, 8),
    audit: "on" as const,
  }));
  const odd = new Map<string, Behaviour>();
  if (certain !== undefined) odd.set(chance.pick(["p1", "p2"]), certain);
  else if (!chance.happens(0.1)) odd.set(chance.pick(fleet.pnodes.slice(0, 4)), chance.pick(answering));
  const plan = certain === undefined && chance.happens(faultyShare) ? drawPlan(seed, fleet) : calm.plan;
  return {
    ...{ ...calm, sessions, behaviours: odd, plan, patienceMs },
    vnodesPerPNode: chance.pick([4, 5, 8]),
    computeMs: chance.skewed(5, 40),
    delayMs: chance.skewed(0.5, 20),
  };
}
