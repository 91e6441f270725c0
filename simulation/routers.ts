// Worlds in which some machines are behind routers that let nothing in: others reach them by relays alone, and relays crash. By a
// chance of their own, so that seeds that were kept before there were routers stay what they are but for these.

import type { RunSettings } from "./draw.ts";
import { type TimedFault, untilFinished } from "./faults.ts";
import { SeededChance } from "./world/chance.ts";

const routersShare = 0.15;

export function hasRouters(seed: number): boolean {
  return new SeededChance(seed, "routers").happens(routersShare);
}

/** The same world with some of its PNodes behind routers, and somebody who relays for them. */
export function withRouters(seed: number, settings: RunSettings): RunSettings {
  const chance = new SeededChance(seed, "behind routers");
  const { plan, fleet } = settings;
  const isAlone = plan.timed.some(({ fault }) => fault.kind === "orchestrators gone");
  // While no orchestrator is there, somebody else has to relay, and everybody has to be able to call that one.
  const [first, ...others] = fleet.pnodes as [string, ...string[]];
  const drawn = others.filter(() => chance.happens(0.6));
  const hidden = drawn.length > 0 ? drawn : others.slice(-1);
  const all = !isAlone && chance.happens(0.3) ? [first, ...hidden] : hidden;
  const open = fleet.pnodes.filter((name) => !all.includes(name));
  const volunteers = open.filter((name) => (isAlone && name === first) || chance.happens(0.5));
  const orchestrators = volunteers.length === 0 || chance.happens(0.6) ? fleet.orchestrators : [];
  const willing = [...volunteers, ...orchestrators];
  // Where there is one alone, its crash takes every way to those behind routers.
  const relays = chance.happens(0.5) ? willing.slice(0, 1) : willing;
  const added: { atMs: number; fault: TimedFault }[] = all.map((host) => ({
    // Most are there from the beginning; some machines are carried elsewhere meanwhile, and back.
    ...(chance.happens(0.75)
      ? { atMs: 0, fault: { kind: "nat", host, durationMs: untilFinished } as const }
      : {
          atMs: chance.between(0, plan.windowMs),
          fault: { kind: "nat", host, durationMs: chance.skewed(2_000, 30_000) } as const,
        }),
  }));
  for (let count = chance.whole(0, 3); count > 0; count--)
    added.push({
      atMs: chance.between(1_000, Math.min(plan.windowMs, 25_000)),
      fault: { kind: "relay crash", host: chance.pick(relays), durationMs: chance.skewed(200, 10_000) },
    });
  const timed = [...added, ...plan.timed].sort((a, b) => a.atMs - b.atMs);
  return { ...settings, relays, plan: { ...plan, timed } };
}
