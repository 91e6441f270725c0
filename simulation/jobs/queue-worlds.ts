// Queue worlds by seed, some with outages, quotas or rivals, and the deliberate faults that their checks must see.

import { decide } from "../../src/scheduler/decide.ts";
import { seeded } from "../../src/scheduler/placement.testing.ts";
import { type QuotaBook, queueRulesDefault } from "../../src/scheduler/quota.ts";
import type { Outage, QueueParts, QueueWorldReport } from "./queue-parts.ts";
import { runQueueWorld } from "./queue-world.ts";
import { asEqual, capacityOf, fleetOf, workloadOf } from "./workload.ts";

const worldKinds = ["classes", "equal", "outages", "quotas", "rivals", "flood"] as const;
export type WorldKind = (typeof worldKinds)[number];

export const kindOfSeed = (seed: number): WorldKind => worldKinds[seed % worldKinds.length] as WorldKind;

/** Short, so that a world of a day shows who is never first. */
const rules = { mustStartMs: 90 * 60_000, ageMs: 90 * 60_000 };

/** A few hundred jobs on some dozens of PNodes, more than they can do at once. */
export function queueWorld(seed: number, kind = kindOfSeed(seed), parts: Partial<QueueParts> = {}): QueueWorldReport {
  if (kind === "flood") return flood(seed, parts);
  const nodes = fleetOf(40, seed);
  const capacity = capacityOf(nodes);
  const hours = 12;
  const queues = kind === "quotas" ? ["day", "night"] : ["default"];
  const drawn = workloadOf({ count: 300, capacity, hours, load: 1.6, seed, queues, largest: Math.floor(capacity / 4) });
  const jobs = kind === "equal" ? drawn.map(asEqual) : drawn;
  return runQueueWorld({
    nodes,
    jobs,
    parts,
    rules,
    ...(kind === "outages" && {
      outages: outagesOf(
        seed,
        nodes.map(({ id }) => id),
        hours,
      ),
    }),
    ...(kind === "quotas" && { books: new Map([["lab", lab(capacity)]]) }),
    ...(kind === "rivals" && { rivals: 2 }),
  });
}

/** A large job of the lowest class, and small ones that never cease to come for half a day. */
function flood(seed: number, parts: Partial<QueueParts>): QueueWorldReport {
  const nodes = fleetOf(16, seed);
  const capacity = capacityOf(nodes);
  const minute = 60_000;
  const random = seeded(seed + 3);
  const drawn = workloadOf({ count: Math.floor(capacity * 13), capacity, hours: 12, load: 1.1, seed, largest: 1 });
  const small = drawn.map(({ job }) => ({
    timeMs: (40 + 40 * random()) * minute,
    job: { ...job, limitMs: 90 * minute },
  }));
  const [first] = small;
  if (!first) throw new Error("a flood has jobs");
  const { job } = first;
  const count = Math.floor(capacity * 0.8);
  const units = [{ memoryBytes: job.demand?.units[0]?.memoryBytes ?? 0, count }];
  const large = {
    ...job,
    id: "large",
    class: "low" as const,
    submittedMs: 60 * 60_000,
    demand: { units, vnodes: count },
  };
  return runQueueWorld({ nodes, jobs: [...small, { job: large, timeMs: first.timeMs }], parts, rules });
}

function lab(capacity: number): QuotaBook {
  const half = Math.floor(capacity / 2);
  const queue = (name: string, borrow: number) => ({
    ...queueRulesDefault,
    name,
    nominal: { cores: half },
    borrowMax: { cores: borrow },
  });
  return { queues: { day: queue("day", half), night: queue("night", Math.floor(half / 4)) }, claims: {} };
}

function outagesOf(seed: number, pnodes: readonly string[], hours: number): Outage[] {
  const random = seeded(seed + 7);
  return Array.from({ length: 60 }, () => {
    const atMs = random() * hours * 3_600_000;
    const pnode = pnodes[Math.floor(random() * pnodes.length)] as string;
    return { atMs, backMs: atMs + random() * 3_600_000, pnode };
  });
}

export interface QueueMutant {
  readonly fault: string;
  readonly kind: WorldKind;
  readonly shows: RegExp;
  readonly parts: Partial<QueueParts>;
}

export const queueMutants: Readonly<Record<string, QueueMutant>> = {
  "no-reservations": {
    fault: "nobody gets a reservation, so small jobs keep a large one waiting",
    kind: "flood",
    shows: /large waited/,
    parts: { decide: (view, rules) => decide(view, { ...rules, reservations: 0, effort: 0 }) },
  },
  "breaks-promises": {
    fault: "room that is promised is given to whoever fits right now",
    kind: "equal",
    shows: /was promised/,
    parts: {
      decide: (view, rules) => {
        const { waits } = decide(view, rules);
        const now = decide(view, { ...rules, reservations: 0, effort: 0 });
        return { ...now, waits };
      },
    },
  },
  "age-without-must-start": {
    fault: "age counts, and yet nobody is ever first because it has waited too long",
    kind: "flood",
    shows: /large waited/,
    parts: { decide: (view, rules) => decide(view, { ...rules, mustStartMs: Number.POSITIVE_INFINITY }) },
  },
  "no-check-of-room": {
    fault: "room is claimed without looking at what others have claimed",
    kind: "rivals",
    shows: /are in use on/,
    parts: { hasRoom: () => true },
  },
  "borrows-without-idle-check": {
    fault: "quota is claimed without looking at what others leave idle",
    kind: "quotas",
    shows: /cores/,
    parts: {
      decide: (view, rules) => decide({ ...view, books: new Map() }, rules),
      claimQuota: (book, wanted) => ({
        book: { ...book, claims: { ...book.claims, ...Object.fromEntries(wanted) } },
        jobs: new Set(wanted.keys()),
      }),
    },
  },
  "starts-half-gangs": {
    fault: "a job starts with half of its VNodes",
    kind: "classes",
    shows: /runs with/,
    parts: { gang: (vnodes) => Math.ceil(vnodes / 2) },
  },
  "forgets-at-suspension": {
    fault: "who gives way goes on from its beginning instead of its recovery line",
    kind: "outages",
    shows: /elsewhere than where it stopped/,
    parts: { leftMs: (timeMs) => timeMs },
  },
};
