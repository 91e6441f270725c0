// One pass through a served network, as PNodes hand it on: which requests its rows belong to, and its tensor.

import type { WireTensor } from "../../vnode/wire.ts";

export interface PassRow {
  readonly request: string;
  /** Of the first new token. */
  readonly position: number;
  readonly tokens: number;
  /** A row of a request that has ended, repeated for its shape alone. */
  readonly ghost: boolean;
}

export interface Pass {
  readonly id: number;
  /** Where sampling happens. */
  readonly conductor: string;
  readonly rows: readonly PassRow[];
  /** Explicit tensors instead of tokens: no rows, no caches. */
  readonly plain: boolean;
  /** Requests whose caches may go. */
  readonly dropped: readonly string[];
}

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
}

export interface PassTensor {
  readonly target: PassTarget;
  readonly pass: Pass;
  readonly tensor: WireTensor;
}
