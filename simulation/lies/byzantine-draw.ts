// What a seed draws where some machines lie: a fleet of which less than a third is not as it should be, one session that is checked, and
// in every other world the usual faults on top.

import { calmRun, fleetOf, planOf, type RunSettings } from "../draw.ts";
import { drawPlan, noFaults } from "../faults.ts";
import { laned, rounds, type Scenario, scenarios } from "../scenarios.ts";
import { SeededChance } from "../world/chance.ts";
import { type Behaviour, behaviours, ownerOf, wrongResultOf } from "./byzantine.ts";

/** Inputs that nobody stores and machines that nobody can replace are waited for, a minute each time. */
const patienceMs = 900_000;
const faultyShare = 0.4;
/** Share of the worlds in which one owner brings many machines, all of which lie. */
const sybilsShare = 0.15;
/** Of the worlds, how many cap how far states may move, and in how many somebody tries. */
const cappedShare = 0.3;
const leapsShare = 0.1;
/** In how many all who are not as they should be repeat nothing for anybody, and say that nobody could. */
const disclaimsShare = 0.1;
/** Of the worlds whose VNodes share weights. */
const togetherShare = 0.7;

/** Of the worlds in which so many could be found, how many ask for two strangers; and of others, how many give VNodes two owners. */
const twoStrangersShare = 0.5;
const twoOwnersShare = 0.15;

/** How two machines that have VNodes behave, in worlds in which everything is checked; for mutants, which show there alone. */
export interface CertainLies {
  readonly behaviour: Behaviour;
  readonly assurance?: "checked" | "proven";
}

export function drawByzantine(seed: number, lies?: CertainLies, hasLanes = false): RunSettings {
  const certain = lies?.behaviour;
  const chance = new SeededChance(seed, "byzantine");
  const fleet = fleetOf(chance.whole(9, 12), chance.whole(1, 2));
  const drawn = chance.pick(["sampled", "checked", "proven", "proven"] as const);
  const assurance = lies === undefined ? drawn : (lies.assurance ?? "checked");
  const every = chance.pick([1, 2, 3]);
  const usual = chance.pick(scenarios);
  const more = new SeededChance(seed, "more lies");
  const scenario = hasLanes ? more.pick([...laned, ...rounds]) : apartOrTogether(usual, seed);
  // Where nobody says how often, rounds are stored at their ends alone.
  const checkpointEvery = scenario.sync && every === 3 ? 0 : every;
  const odd = new Map<string, Behaviour>();
  // The last ones may be trusted; those are honest.
  const trusted = assurance === "proven" ? fleet.pnodes.slice(-4) : chance.happens(0.5) ? fleet.pnodes.slice(-1) : [];
  const others = fleet.pnodes.filter((name) => !trusted.includes(name));
  const count = chance.whole(1, 3);
  while (odd.size < count) odd.set(chance.pick(others), chance.pick(behaviours));
  const army = new SeededChance(seed, "sybils");
  if (certain === undefined && army.happens(sybilsShare)) {
    odd.clear();
    const spared = assurance === "checked" ? honestFor(scenario, 1) : 0;
    for (const name of others.slice(0, Math.min(army.whole(2, 5), fleet.pnodes.length - spared)))
      odd.set(name, "sybil");
  }
  // Some machines leap, where moves are capped and where they are not.
  const leaping = new SeededChance(seed, "leaps");
  if (certain === undefined && leaping.happens(leapsShare)) odd.set([...odd.keys()][0] as string, "leaps");
  const disclaiming = new SeededChance(seed, "disclaims");
  if (certain === undefined && disclaiming.happens(disclaimsShare))
    for (const name of odd.keys()) odd.set(name, "disclaims");
  if (certain !== undefined) for (const name of others.slice(0, 2)) odd.set(name, certain);
  const plan = chance.happens(faultyShare) && certain === undefined ? drawPlan(seed, fleet) : noFaults(1);
  const cuts = plan.timed.filter(({ fault }) => fault.kind === "cut").length;
  const honest = fleet.pnodes.length - odd.size - cuts;
  const wishes = new SeededChance(seed, "wishes");
  const [two, both, isCapped] = [twoStrangersShare, twoOwnersShare, cappedShare].map((one) => wishes.happens(one));
  const replicas = both && assurance !== "checked" && certain === undefined ? 2 : 1;
  const calm = calmRun(scenario, fleet, {
    ...{ checkpointEvery, replicas, assurance },
    ...(two && assurance === "checked" && honest >= honestFor(scenario, 2) ? { strangers: 2 } : {}),
    ...(isCapped && certain === undefined && hasBound(scenario) ? { cap: "on" as const } : {}),
  });
  return {
    ...{ ...calm, behaviours: odd, trusted, plan, patienceMs },
    vnodesPerPNode: chance.pick([1, 2, 2, 3]) + (hasLanes ? 3 : 1),
    computeMs: chance.skewed(5, 60),
    delayMs: chance.skewed(0.5, 20),
  };
}

/** VNodes that share weights are on one machine in most worlds: then they state nothing of what passes between them. */
function apartOrTogether(scenario: Scenario, seed: number): Scenario {
  if (scenario.name !== "tie" || !new SeededChance(seed, "tied").happens(togetherShare)) return scenario;
  const group = '$&, colocate_group: "table", colocate_policy: "required"';
  const definition = scenario.definition.replace(/(shared|tie)_weight_alias: "tokens"/g, group);
  return { ...scenario, name: "tied", definition };
}

/** Whether moves can be capped: lanes of a round and SGD without clipping go as far as they like. */
function hasBound(scenario: Scenario): boolean {
  const plain = planOf(scenario).vnodes.every(({ optimizer }) => optimizer.kind !== "sgd");
  return scenario.sync === undefined && plain;
}

/**
 * The owner of a VNode and those of its neighbours cannot check it, nor those who are found out on the way: with fewer honest machines than this
 * so many strangers may not be left, and a session that asks for them waits, as it should, and has no end to be compared.
 */
function honestFor(scenario: Scenario, strangers: number): number {
  const { vnodes, edges } = planOf(scenario);
  const near = vnodes.map(({ id }) =>
    edges.filter(({ from, to }) => from === id || to === id).flatMap((edge) => [edge.from, edge.to]),
  );
  return Math.max(...near.map((one) => new Set(one).size)) + strangers;
}

/**
 * Whether what is final must be what honest machines come to. A stranger is believed if it is of another owner: where as many owners as
 * are asked, and the liar, come to the same wrong result, they may agree with each other, and only machines that somebody trusts can tell. That is what
 * `checked` by r strangers promises, and no more. Machines of one owner never confirm each other, so Sybils count once.
 */
export function isCertain({ sessions, behaviours: odd = new Map() }: RunSettings): boolean {
  const owners = new Map<string, Set<string>>();
  for (const [host, behaviour] of odd) {
    const result = wrongResultOf(behaviour);
    if (result !== undefined) owners.set(result, (owners.get(result) ?? new Set()).add(ownerOf(behaviour, host)));
  }
  const alike = Math.max(0, ...Array.from(owners.values(), ({ size }) => size));
  return sessions.every(({ policy }) => policy.assurance === "proven" || alike <= (policy.strangers ?? 1));
}
