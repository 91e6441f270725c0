// One pass through a served network, as PNodes hand it on: which requests its rows belong to, and its tensor.

import { requestsAtOnceMax } from "../../network/graphs/generation.ts";
import type { WireTensor } from "../../vnode/wire.ts";

/** New tokens of one request: as many rows of the pass's tensors, one after the other. */
export interface PassRow {
  readonly request: string;
  /** Of the first new token. What the request had from there on is gone. */
  readonly position: number;
  readonly tokens: number;
  /** Of how many of the last tokens the head gives logits. */
  readonly logits: number;
  /** Of how many of the last tokens the head gives hidden states; absent: of none. */
  readonly hidden?: number;
  /** Which of the model's adapters the request uses; absent: none. */
  readonly adapter?: number;
  /** The request begins with the first positions of another, whose caches it shares. */
  readonly shared?: { readonly request: string; readonly positions: number };
}

/** Caches belong to one turn: those of earlier ones go when a later one begins. */
export interface Turn {
  /** Of the head that the conductor sits beside. */
  readonly epoch: number;
  /** Grows whenever the conductor begins anew. */
  readonly attempt: number;
}

export interface Pass extends Turn {
  readonly id: number;
  /** Where sampling happens. */
  readonly conductor: string;
  /** None in a pass that only says what may be dropped. */
  readonly rows: readonly PassRow[];
  /** Explicit tensors instead of tokens: no rows, no caches. */
  readonly plain: boolean;
  /** Requests whose caches may go. */
  readonly dropped: readonly string[];
}

export function isLater(a: Turn, b: Turn): boolean {
  return a.epoch > b.epoch || (a.epoch === b.epoch && a.attempt > b.attempt);
}

/** Requests in one pass. */
export const rowsMax = requestsAtOnceMax;

/** Tokens of one pass: others wait while it computes. */
export const passTokensMax = 256;

export function tokensIn({ rows }: Pick<Pass, "rows">): number {
  return rows.reduce((sum, { tokens }) => sum + tokens, 0);
}

export function haveSameRows(a: Pass, b: Pass): boolean {
  return a === b || (a.rows.length === b.rows.length && a.rows.every((row, index) => isSameRow(row, b.rows[index])));
}

function isSameRow(a: PassRow, b: PassRow | undefined): boolean {
  const said = ({ request, position, tokens, logits, hidden = 0, adapter = 0, shared }: PassRow) =>
    JSON.stringify([request, position, tokens, logits, hidden, adapter, shared?.request, shared?.positions]);
  return b !== undefined && said(a) === said(b);
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
  /** Why repeating it would not help; empty if it would. */
  readonly failure: string;
}

export interface PassTensor {
  readonly target: PassTarget;
  readonly pass: Pass;
  readonly tensor: WireTensor;
}
