// Who is a newcomer, and how much of what machines say of their speed is believed. A machine is none any more once it has taken part in
// steps of real work, or once operators or audits say more of it (`trust`). Until then it counts as no faster than others have been
// measured to be, whatever it says of itself, and gets a small share of a workload (scheduler/placement/bins.ts). Afterwards, what is far
// beyond the usual counts as far as steps have been seen to pass with it: its own clock is its own word.

import { Recent } from "../../../core/caches/recent.ts";
import { DcnrError } from "../../../core/errors.ts";
import type { PNodeId } from "../../../core/ids.ts";
import type { Clock } from "../../../core/world.ts";
import { isLoopback } from "../../../protocol/routes/address.ts";
import { trustLevel } from "../../../scheduler/placement/types.ts";
import type { PNodeRecord } from "../../records/machines.ts";

/** Steps that recovery lines must have passed with it among the owners. */
export const provingSteps = 50;
/** Where nobody was measured yet, a claim counts up to so many times the usual one. */
const claimTimesMost = 4;
const pnodesMax = 100_000;
/** The usual speed is worked out anew when this share of the fleet has changed. */
const changedShare = 0.1;

export function isNewcomer({ trust, worked }: Pick<PNodeRecord, "trust" | "worked">): boolean {
  return trustLevel(trust) === 0 && worked !== true;
}

/** Counts the steps in which newcomers have taken part. */
export class ProvingWork {
  readonly #steps = new Recent<PNodeId, number>(pnodesMax);

  /** True when it has worked enough by now. */
  note(pnode: PNodeId, steps: number): boolean {
    const sum = (this.#steps.get(pnode) ?? 0) + steps;
    this.#steps.set(pnode, sum);
    return sum >= provingSteps;
  }
}

/** Long enough that checkpoints which were kept back and told at once look no faster than they were. */
const seenWindowMs = 10_000;

/**
 * How fast machines were at least, by the steps that sessions have passed with them among the owners: nothing of it is what they say
 * of themselves. Most are faster: in a pipeline they wait for others.
 */
export class SeenWork {
  readonly #seen = new Recent<PNodeId, { readonly sinceMs: number; readonly flops: number; readonly gflops: number }>(
    pnodesMax,
  );

  /** So many operations of its VNodes since the last time. True if it was faster than ever. */
  note(pnode: PNodeId, flops: number, nowMs: number): boolean {
    const known = this.#seen.get(pnode);
    // How long the first ones took is not known.
    if (known === undefined) {
      this.#seen.set(pnode, { sinceMs: nowMs, flops: 0, gflops: 0 });
      return false;
    }
    const { sinceMs, gflops } = known;
    const sum = known.flops + flops;
    const tookMs = nowMs - sinceMs;
    if (tookMs < seenWindowMs) {
      this.#seen.set(pnode, { sinceMs, flops: sum, gflops });
      return false;
    }
    const now = sum / tookMs / 1e6;
    this.#seen.set(pnode, { sinceMs: nowMs, flops: 0, gflops: Math.max(gflops, now) });
    return now > gflops;
  }

  /** GFLOP/s; 0 if nothing was seen. */
  of(pnode: PNodeId): number {
    return this.#seen.get(pnode)?.gflops ?? 0;
  }
}

/** A machine may wait for others for all but a sixteenth of its time. */
const waitsMost = 16;

/** What a machine that has worked, and of which nobody says more, counts as at most. */
export function believedGflops(usual: UsualSpeed, seenGflops: number): number {
  return Math.max(usual.unseenMost, waitsMost * seenGflops);
}

interface Speed {
  readonly gflops: number;
  /** How it is known: by work that was watched, by the word of a machine that has worked, or by a newcomer's. */
  readonly source: "measured" | "worker" | "newcomer";
}

/** The usual speed of a fleet: the median of what was measured, or of what is claimed where nothing was, by those who worked. */
export class UsualSpeed {
  readonly #speeds = new Map<PNodeId, Speed>();
  #changes = 0;
  #most = Number.POSITIVE_INFINITY;
  #median = Number.POSITIVE_INFINITY;

  /** What a newcomer counts as at most. */
  get most(): number {
    return this.#most;
  }

  /** What one that has worked counts as at most without having been seen to be as fast. */
  get unseenMost(): number {
    return claimTimesMost * this.#median;
  }

  /** True if newcomers count otherwise than before. */
  note(pnode: PNodeId, speed: Speed | undefined): boolean {
    const before = this.#speeds.get(pnode);
    if (before?.gflops === speed?.gflops && before?.source === speed?.source) return false;
    if (speed === undefined) this.#speeds.delete(pnode);
    else this.#speeds.set(pnode, speed);
    if (++this.#changes < changedShare * this.#speeds.size) return false;
    this.#changes = 0;
    const most = this.#reckon();
    const isOther = most !== this.#most;
    this.#most = most;
    return isOther;
  }

  #reckon(): number {
    const all = Array.from(this.#speeds.values());
    const from = (source: Speed["source"]) => all.filter((one) => one.source === source);
    const [measured, workers] = [from("measured"), from("worker")];
    const known = [measured, workers, all].find(({ length }) => length > 0);
    this.#median = known ? median(known) : Number.POSITIVE_INFINITY;
    return known === measured ? this.#median : claimTimesMost * this.#median;
  }
}

/**
 * How many machines that nobody has heard of register from one address within an hour. Labs and offices share one; whoever
 * makes keys by the thousand is held up. The machine itself, on which tests and benchmarks start many, is not counted.
 */
const newcomersPerHour = 256;
const hourMs = 3_600_000;

export class NewcomersDoor {
  readonly #clock: Clock;
  readonly #came = new Recent<string, { readonly sinceMs: number; readonly count: number }>(pnodesMax);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Fails for one too many. */
  enter(address: string): void {
    if (isLoopback(address)) return;
    const nowMs = this.#clock.monotonicMs();
    const known = this.#came.get(address);
    const { sinceMs, count } = known && nowMs < known.sinceMs + hourMs ? known : { sinceMs: nowMs, count: 0 };
    if (count >= newcomersPerHour)
      throw new DcnrError(
        "resource_exhausted",
        `${newcomersPerHour} new machines have registered from ${address} within an hour: try again later`,
        { outlook: "passing" },
      );
    this.#came.set(address, { sinceMs, count: count + 1 });
  }
}

/** The lower one of two in the middle. */
function median(speeds: readonly Speed[]): number {
  const sorted = speeds.map(({ gflops }) => gflops).sort((a, b) => a - b);
  return sorted[(sorted.length - 1) >> 1] as number;
}
