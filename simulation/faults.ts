// The faults of one seed, drawn as a whole before the run, so that they can be read, counted and shortened.
// Each seed uses some kinds only: kinds hide each other when all are on at once.

import { type BlobFaults, noBlobFaults } from "./world/blobs.ts";
import { SeededChance } from "./world/chance.ts";
import { noStoreFaults, type StoreFaults } from "./world/store.ts";
import { noWireFaults, type WireFaults } from "./world/wire.ts";

export type TimedFault =
  | { readonly kind: "crash"; readonly host: Target; readonly silent: boolean; readonly durationMs: number }
  | { readonly kind: "leave"; readonly host: Target; readonly durationMs: number }
  | { readonly kind: "pause"; readonly host: Target; readonly durationMs: number }
  | { readonly kind: "slow"; readonly host: Target; readonly factor: number; readonly durationMs: number }
  | {
      readonly kind: "partition";
      readonly from: readonly string[];
      readonly to: readonly string[];
      readonly oneWay: boolean;
      readonly durationMs: number;
    }
  | { readonly kind: "clock jump"; readonly host: Target; readonly wallMs: number; readonly monotonicMs: number }
  | { readonly kind: "store down"; readonly durationMs: number }
  | { readonly kind: "blob damaged"; readonly choice: number }
  | { readonly kind: "power cut"; readonly hosts: readonly string[]; readonly durationMs: number }
  /** A VNode's state at the line rots and its owner crashes: whoever takes over finds it so, and the session goes back. */
  | { readonly kind: "line lost"; readonly choice: number; readonly durationMs: number }
  /** A PNode reaches its peers but no orchestrator: it works on while its VNodes are given to others. */
  | { readonly kind: "cut off"; readonly host: Target; readonly from: readonly string[]; readonly durationMs: number }
  /** Nothing that orchestrators say by themselves gets to a PNode, until it connects anew; they hear it, and answer its calls. */
  | { readonly kind: "told nothing"; readonly host: Target; readonly by: readonly string[] }
  /** An orchestrator hears no hints about some records and tells its PNodes what it knew before. */
  | { readonly kind: "deaf"; readonly host: string; readonly prefix: string; readonly durationMs: number }
  /** All orchestrators crash at once, and come back with the store as they left it; or only when the crews have finished. */
  | { readonly kind: "orchestrators gone"; readonly hosts: readonly string[]; readonly durationMs: number }
  /** What a PNode kept for others is gone when it comes back. */
  | { readonly kind: "disk lost"; readonly host: Target; readonly durationMs: number }
  /** As soon as a state is held by its owner and one keeper and by nobody else, both are gone. */
  | { readonly kind: "holders die" }
  /** Two groups that do not reach each other, each with some PNodes. */
  | {
      readonly kind: "split";
      readonly from: readonly string[];
      readonly to: readonly string[];
      readonly durationMs: number;
    }
  /** From now on the PNode is behind a router that lets nothing in; what is connected stays so. */
  | { readonly kind: "nat"; readonly host: string; readonly durationMs: number }
  /** Somebody who relays for others crashes, and what it carried with it. */
  | { readonly kind: "relay crash"; readonly host: string; readonly durationMs: number }
  /** Two PNodes that do not reach each other for the rest of the run: nothing heals it. */
  | { readonly kind: "cut"; readonly from: string; readonly to: string; readonly oneWay: boolean };

export type FaultKind = TimedFault["kind"];

/** Faults that strike where blind ones rarely do: at what recovery stands on. Some worlds draw them, some mutants need them. */
export type AimedKind = "line lost" | "cut off" | "deaf";

/** Faults of sessions that go on without orchestrators (autonomy.ts). */
export type AutonomyKind = "orchestrators gone" | "disk lost" | "holders die" | "split";

/** Faults of machines that nobody can connect to (routers.ts). */
export type RouterKind = "nat" | "relay crash";

/** `durationMs` of orchestrators and PNodes that come back only when the crews have finished, and of routers that stay. */
export const untilFinished = Number.POSITIVE_INFINITY;

export interface FaultPlan {
  readonly seed: number;
  /** Faults strike before this; then everything is healed and the run must finish. */
  readonly windowMs: number;
  readonly wire: WireFaults;
  readonly store: StoreFaults;
  readonly blobs: BlobFaults;
  /** In order of time. */
  readonly timed: readonly { readonly atMs: number; readonly fault: TimedFault }[];
}

/** A host by its name, or, as `busy/0.4`, one of those that have VNodes when the fault strikes. */
export type Target = string;

export interface Fleet {
  readonly pnodes: readonly string[];
  readonly orchestrators: readonly string[];
}

export function noFaults(seed: number): FaultPlan {
  return { seed, windowMs: 0, wire: noWireFaults, store: noStoreFaults, blobs: noBlobFaults, timed: [] };
}

/** Share of the seeds that use a kind. */
const timedShares: Record<
  Exclude<FaultKind, "cut" | "told nothing" | AimedKind | AutonomyKind | RouterKind>,
  number
> = {
  crash: 0.9,
  leave: 0.3,
  pause: 0.5,
  slow: 0.3,
  partition: 0.5,
  "clock jump": 0.4,
  "store down": 0.25,
  "blob damaged": 0.15,
  "power cut": 0.1,
};

/** `windowMinMs`: faults strike at least for this long. */
export function drawPlan(seed: number, fleet: Fleet, windowMinMs = 0): FaultPlan {
  const chance = new SeededChance(seed, "faults");
  const windowMs = Math.max(windowMinMs, chance.skewed(8_000, 40_000));
  const kinds = (Object.keys(timedShares) as (keyof typeof timedShares)[]).filter((kind) =>
    chance.happens(timedShares[kind]),
  );
  if (kinds.length === 0) kinds.push("crash");
  const gapMs = chance.skewed(200, 2_000);
  const timed: { atMs: number; fault: TimedFault }[] = [];
  for (let atMs = chance.between(0, 1_500); atMs < windowMs; atMs += chance.between(0.1, 1.9) * gapMs)
    timed.push({ atMs, fault: drawFault(chance, chance.pick(kinds), fleet, gapMs) });
  const all = [...timed, ...drawCuts(seed, fleet, windowMs)].sort((a, b) => a.atMs - b.atMs);
  const { wire, ...rates } = drawRates(chance);
  return { seed, windowMs, ...rates, wire: { ...wire, hang: drawHangs(seed) }, timed: all };
}

const hangShare = 0.3;

/** By a chance of their own, as cuts are. */
function drawHangs(seed: number): number {
  const chance = new SeededChance(seed, "hangs");
  return chance.happens(hangShare) ? chance.skewed(0.0005, 0.01) : 0;
}

const cutShare = 0.15;

/** By a chance of their own: seeds that were kept before there were cuts stay what they are but for these. */
function drawCuts(seed: number, { pnodes }: Fleet, windowMs: number): FaultPlan["timed"] {
  const chance = new SeededChance(seed, "cuts");
  if (!chance.happens(cutShare) || pnodes.length < 2) return [];
  return Array.from({ length: chance.happens(0.3) ? 2 : 1 }, () => {
    const from = chance.pick(pnodes);
    const to = chance.pick(pnodes.filter((name) => name !== from));
    return { atMs: chance.between(0, windowMs), fault: { kind: "cut", from, to, oneWay: chance.happens(0.5) } };
  });
}

/** Share of the seeds that use an aimed kind. */
const aimedShares: Record<AimedKind, number> = { "line lost": 0.12, "cut off": 0.12, deaf: 0.12 };

/** By a chance of their own, as cuts are. */
export function drawAims(seed: number): AimedKind[] {
  const chance = new SeededChance(seed, "aimed kinds");
  return (Object.keys(aimedShares) as AimedKind[]).filter((kind) => chance.happens(aimedShares[kind]));
}

/** The same plan with a few aimed faults of these kinds; most strike early, while sessions run. */
export function aimed(plan: FaultPlan, fleet: Fleet, kinds: readonly AimedKind[]): FaultPlan {
  const chance = new SeededChance(plan.seed, "aims");
  const lastMs = Math.min(plan.windowMs, 20_000);
  const added = kinds.flatMap((kind) =>
    Array.from({ length: chance.whole(2, 4) }, () =>
      drawAimed(chance, kind, fleet, chance.between(1_000, lastMs)),
    ).flat(),
  );
  const timed = [...plan.timed, ...added.filter(({ atMs }) => atMs < plan.windowMs)];
  return { ...plan, timed: timed.sort((a, b) => a.atMs - b.atMs) };
}

function drawAimed(chance: SeededChance, kind: AimedKind, { orchestrators }: Fleet, atMs: number): FaultPlan["timed"] {
  const busy: Target = `busy/${chance.uniform()}`;
  switch (kind) {
    case "line lost":
      return [{ atMs, fault: { kind, choice: chance.uniform(), durationMs: chance.skewed(100, 4_000) } }];
    case "cut off":
      // Longer than it takes to give a PNode up.
      return [{ atMs, fault: { kind, host: busy, from: orchestrators, durationMs: chance.between(5_000, 12_000) } }];
    case "deaf": {
      const host = chance.pick(orchestrators);
      const durationMs = chance.between(3_000, 8_000);
      // While it is deaf it tells its PNodes of VNodes that lost their owners.
      const crash = { kind: "crash", host: busy, silent: false, durationMs: 1_000 } as const;
      return [
        { atMs, fault: { kind, host, prefix: "session/", durationMs } },
        { atMs: atMs + chance.between(500, 2_500), fault: crash },
      ];
    }
  }
}

function drawRates(chance: SeededChance): Pick<FaultPlan, "wire" | "store" | "blobs"> {
  const rate = (share: number, low: number, high: number) => (chance.happens(share) ? chance.skewed(low, high) : 0);
  return {
    wire: {
      loss: rate(0.5, 0.0005, 0.02),
      duplicate: rate(0.5, 0.01, 0.3),
      replyLost: rate(0.5, 0.005, 0.1),
      spike: rate(0.5, 0.005, 0.1),
      spikeMs: chance.skewed(20, 1_500),
      hang: 0,
    },
    store: {
      replyLost: rate(0.6, 0.005, 0.15),
      requestLost: rate(0.4, 0.002, 0.05),
      hintDropped: rate(0.4, 0.02, 0.5),
      hintDelayMs: chance.skewed(5, 1_000),
    },
    blobs: {
      writeFailed: rate(0.5, 0.02, 0.3),
      flipped: rate(0.4, 0.01, 0.15),
      readFailed: rate(0.4, 0.01, 0.2),
    },
  };
}

function drawFault(chance: SeededChance, kind: keyof typeof timedShares, fleet: Fleet, gapMs: number): TimedFault {
  // PNodes vanish far more often than orchestrators, here as in life; those at work matter most.
  const pnode = chance.happens(0.6) ? `busy/${chance.uniform()}` : chance.pick(fleet.pnodes);
  const host: Target = chance.happens(0.75) ? pnode : chance.pick(fleet.orchestrators);
  const durationMs = chance.skewed(50, 8_000);
  switch (kind) {
    case "crash":
      return { kind, host, silent: chance.happens(0.3), durationMs: chance.skewed(100, 4 * gapMs + 1_000) };
    case "leave":
      return { kind, host: pnode, durationMs };
    case "pause":
      return { kind, host, durationMs };
    case "slow":
      return { kind, host, factor: chance.skewed(2, 40), durationMs };
    case "partition":
      return {
        kind,
        ...drawSides(chance, [...fleet.pnodes, ...fleet.orchestrators]),
        oneWay: chance.happens(0.5),
        durationMs,
      };
    case "clock jump":
      return {
        kind,
        host,
        wallMs: chance.between(-3.6e6, 3.6e6),
        monotonicMs: chance.happens(0.3) ? chance.skewed(100, 60_000) : 0,
      };
    case "store down":
      return { kind, durationMs: chance.skewed(200, 5_000) };
    case "blob damaged":
      return { kind, choice: chance.uniform() };
    case "power cut":
      return { kind, hosts: [...fleet.pnodes, ...fleet.orchestrators], durationMs: chance.skewed(200, 5_000) };
  }
}

function drawSides(chance: SeededChance, hosts: readonly string[]): { from: string[]; to: string[] } {
  const from = hosts.filter(() => chance.happens(0.4));
  const to = hosts.filter((host) => !from.includes(host));
  return from.length === 0 || to.length === 0 ? { from: [hosts[0] as string], to: hosts.slice(1) } : { from, to };
}
