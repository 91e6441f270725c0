// What a seed draws where some machines lie: a fleet of which less than a third is not as it should be, one session that is checked, and
// in every other world the usual faults on top.

import { calmRun, fleetOf, type RunSettings } from "../draw.ts";
import { drawPlan } from "../faults.ts";
import { scenarios } from "../scenarios.ts";
import { SeededChance } from "../world/chance.ts";
import { type Behaviour, behaviours, liars } from "./byzantine.ts";

/** Inputs that nobody stores and machines that nobody can replace are waited for, a minute each time. */
const patienceMs = 900_000;
const faultyShare = 0.4;
/** Share of the worlds in which one owner brings many machines, all of which lie. */
const sybilsShare = 0.15;

/** `certain`: how one machine that has VNodes behaves, in worlds in which everything is checked; for mutants, which show there alone. */
export function drawByzantine(seed: number, certain?: Behaviour): RunSettings {
  const chance = new SeededChance(seed, "byzantine");
  const fleet = fleetOf(chance.whole(9, 12), chance.whole(1, 2));
  const drawn = chance.pick(["sampled", "checked", "proven", "proven"] as const);
  const assurance = certain === undefined ? drawn : "checked";
  const checkpointEvery = chance.pick([1, 2, 3]);
  const calm = calmRun(chance.pick(scenarios), fleet, { checkpointEvery, replicas: 1, assurance });
  const odd = new Map<string, Behaviour>();
  // The last ones may be trusted; those are honest.
  const trusted = assurance === "proven" ? fleet.pnodes.slice(-4) : chance.happens(0.5) ? fleet.pnodes.slice(-1) : [];
  const others = fleet.pnodes.filter((name) => !trusted.includes(name));
  const count = chance.whole(1, 3);
  while (odd.size < count) odd.set(chance.pick(others), chance.pick(behaviours));
  const army = new SeededChance(seed, "sybils");
  if (certain === undefined && army.happens(sybilsShare)) {
    odd.clear();
    for (const name of others.slice(0, army.whole(2, 5))) odd.set(name, "sybil");
  }
  if (certain !== undefined) for (const name of others.slice(0, 2)) odd.set(name, certain);
  const plan = chance.happens(faultyShare) && certain === undefined ? drawPlan(seed, fleet) : calm.plan;
  return {
    ...{ ...calm, behaviours: odd, trusted, plan, patienceMs },
    vnodesPerPNode: chance.pick([1, 2, 2, 3]) + 1,
    computeMs: chance.skewed(5, 60),
    delayMs: chance.skewed(0.5, 20),
  };
}

/**
 * Whether what is final must be what honest machines come to. Strangers are believed by two against one: where several lie alike, they
 * may agree with each other, and only machines that somebody trusts can tell.
 */
export function isCertain({ sessions, behaviours: odd = new Map() }: RunSettings): boolean {
  const lying = [...odd.values()].filter((behaviour) => liars.has(behaviour));
  return sessions.every(({ policy }) => policy.assurance === "proven") || lying.length < 2;
}
