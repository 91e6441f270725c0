// Records of rounds in sessions that are elastic. Both are create-only and written before they take effect: whoever replays a round is
// told the same, and which samples were learned from follows from these records alone.

import type { SessionId } from "../../core/ids.ts";
import type { Range, RoundPlan } from "../../network/rounds.ts";

/** Who learns how much, on which samples, in which class. */
export interface RoundRecord extends RoundPlan {
  readonly session: SessionId;
  /** The first microbatch of the data that no plan up to this one has taken. */
  readonly next: number;
  /** What late lanes left and no plan up to this one has taken again. */
  readonly left: readonly Range[];
  /** Of rounds below this one such leavings are in `left`, or taken. */
  readonly collected: number;
}

/** Whose work counts. */
export interface ClosingRecord {
  readonly session: SessionId;
  readonly round: number;
  readonly counted: readonly number[];
  /** How long its first lane took: an orchestrator that comes in the middle of the next round gives late lanes as long. */
  readonly tookMs?: number;
}
