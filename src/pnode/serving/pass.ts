// One pass through a served network, as PNodes hand it on: which requests its rows belong to, and its tensor.

import { requestsAtOnceMax } from "../../network/graphs/generation.ts";
import type { WireTensor } from "../../vnode/wire.ts";

export interface PassRow {
  readonly request: string;
  /** Of the first new token. */
  readonly position: number;
  readonly tokens: number;
  /** A row that stands for its shape alone: its values do not matter, and nothing is kept of it. */
  readonly ghost: boolean;
}

/** Caches belong to one turn: those of earlier ones go when a later one begins. */
export interface Turn {
  /** Of the head that the conductor sits beside. */
  readonly epoch: number;
  /** Grows whenever the conductor repeats its passes. */
  readonly attempt: number;
}

export interface Pass extends Turn {
  readonly id: number;
  /** Where sampling happens. */
  readonly conductor: string;
  /** All with the same number of tokens. None in a pass that only says what may be dropped. */
  readonly rows: readonly PassRow[];
  /** Explicit tensors instead of tokens: no rows, no caches. */
  readonly plain: boolean;
  /** Requests whose caches may go. */
  readonly dropped: readonly string[];
}

export function isLater(a: Turn, b: Turn): boolean {
  return a.epoch > b.epoch || (a.epoch === b.epoch && a.attempt > b.attempt);
}

/** Rows of one pass. */
export const rowsMax = requestsAtOnceMax;

/** Where a pass's tensor goes. */
export interface PassTarget {
  readonly session: string;
  readonly vnode: string;
  readonly port: string;
}

/** Tells a conductor that a pass cannot be finished. */
export interface LostPass {
  readonly session: string;
  readonly pass: Pass;
  /** Why repeating it would not help; empty if it would. */
  readonly failure: string;
}

export interface PassTensor {
  readonly target: PassTarget;
  readonly pass: Pass;
  readonly tensor: WireTensor;
}
