// What is to be written next into a session's chain: pure functions of the chain as it is and of what has become final or
// was decided. Each gives one block's worth, or nothing once all is done; so whoever asks again after a crash, or at the
// same time as another, pays nobody twice.

import type { PNodeId } from "../../core/ids.ts";
import { account, creditsOf } from "./accounts.ts";
import type { Move, Settle, Share, Slash, Transfer, Work } from "./block.ts";
import { type Chain, moveLegs, settleLegs, slashLegs } from "./chain.ts";
import { lossesLeft, paidWith, sumsOf } from "./losses.ts";

/** An interval that is final: nothing can take it back any more. */
export type FinalWork = Omit<Work, "credits">;

export interface Finality {
  /** Steps up to which everything is final. */
  readonly final: number;
  /** Above what was paid before, at least; more does no harm. In the order of each VNode's steps. */
  readonly work: readonly FinalWork[];
  /** Pay vests this many steps after it became final. */
  readonly vestingSteps: number;
  /** The session is over, so that all of it vests. */
  readonly ended: boolean;
}

/** Pay can be lost for this many intervals between checkpoints: long enough that lying does not pay. */
export const vestingIntervals = 40;

/** A block stays well below what a store takes, with names as long as they may be. */
const sharesMax = 300;

export function nextSettlement(chain: Chain, { final, work, vestingSteps, ended }: Finality): Settle | undefined {
  const due = unpaid(
    chain,
    work.filter(({ to }) => to <= final),
  );
  const upTo = ended && due.length === 0 ? final : Math.max(0, final - vestingSteps);
  // What is paid now is not yet old enough, however far the line has leapt.
  const oldest = Math.min(upTo, ...due.map(({ to }) => to - 1));
  const vests = chain.vestable(oldest).slice(0, sharesMax);
  if (due.length === 0 && vests.length === 0) return undefined;
  const legs = settleLegs(chain.name, { work: due, vests });
  return { kind: "settle", ref: freeRef(chain, `settle/${final}`), legs, work: due, upTo: oldest, vests };
}

/** Copies of one interval stay together: a second block would take them for paid already. */
function unpaid(chain: Chain, work: readonly FinalWork[]): Work[] {
  const due: Work[] = [];
  const intervals = Map.groupBy(work, ({ vnode, from, to, role }) => `${vnode} ${from} ${to} ${role}`);
  for (const copies of intervals.values()) {
    const fresh = copies.flatMap((one) => stillDue(chain, one) ?? []);
    if (due.length > 0 && due.length + fresh.length > sharesMax) break;
    due.push(...fresh);
  }
  return due;
}

function stillDue(chain: Chain, work: FinalWork): Work | undefined {
  if (work.role === "auditor")
    return chain.isAudited(work) ? undefined : { ...work, credits: creditsOf(work.flops, work.from, work.to) };
  const from = Math.max(work.from, chain.paidTo(work.vnode));
  return from < work.to ? { ...work, from, credits: creditsOf(work.flops, from, work.to) } : undefined;
}

export interface Conviction {
  /** Names the case: it is punished once. */
  readonly id: string;
  readonly convict: PNodeId;
  /** Work of others that was thrown away because of it. */
  readonly losses: readonly Share[];
  /** The turn of the session that the losses are of: what was made good in it, or later, may be the same. */
  readonly since: number;
  /** The session's turn now. */
  readonly turn: number;
  /** What the convict loses beside its escrow. */
  readonly bond: number;
}

/** The convict's escrow makes good what nobody has made good yet, and its bond what is left then. */
export function slashing(chain: Chain, { id, convict, losses, since, turn, bond }: Conviction): Slash | undefined {
  const ref = `slash/${id}`;
  if (chain.has(ref)) return undefined;
  const due = lossesLeft(losses, sumsOf(chain.madeGoodSince(since))).slice(0, sharesMax);
  const escrow = chain.balance(account.escrow(chain.name, convict));
  const bonded = paidWith(lossesLeft(due, sumsOf(paidWith(due, escrow))), bond);
  const legs = slashLegs(chain, { convict, losses: due });
  return { kind: "slash", ref, legs, convict, losses: due, turn, bonded };
}

/** In the payouts: the convict's bond makes good what the session's chain says that it does. */
export function bondSlashing(payouts: Chain, session: string, own: Slash): Slash | undefined {
  const ref = own.ref.replace("slash/", `slash/${session}/`);
  if (payouts.has(ref)) return undefined;
  const { convict, bonded: losses = [] } = own;
  return { kind: "slash", ref, legs: slashLegs(payouts, { convict, losses }), convict, losses };
}

export interface MoveRequest extends Pick<Move, "kind" | "pnode" | "credits" | "note"> {
  /** Chosen by whoever asks: the same again changes nothing. */
  readonly id: string;
}

/** What the PNode has elsewhere than in the payouts, as far as that was read. */
export interface Holdings {
  /** What the chains of sessions have credited to it: it never shrinks. */
  readonly credited: number;
  readonly escrowed: number;
  /** Why its bond stays, beside what is in escrow. */
  readonly hold: string | undefined;
}

/** A reason instead of a transfer: what is asked for is not there. */
export type Refusal = { readonly refused: string };

export function moving(
  payouts: Chain,
  { id, kind, pnode, credits, note }: MoveRequest,
  { credited, escrowed, hold }: Holdings,
): Transfer | Refusal | undefined {
  const ref = `${kind}/${id}`;
  if (payouts.has(ref)) return undefined;
  const have =
    kind === "release" ? payouts.balance(account.bond(pnode)) : credited + payouts.balance(account.available(pnode));
  const from = kind === "release" ? "laid down" : "available";
  if (credits > have) return { refused: `${have} credits of ${pnode} are ${from}, ${credits} were asked for` };
  if (kind === "release" && escrowed > 0)
    return { refused: `${escrowed} credits of ${pnode} have not vested yet: a bond is free once all work has` };
  if (kind === "release" && hold !== undefined)
    return { refused: `the bond of ${pnode} stays while what it does may still be found wrong: ${hold}` };
  return { kind, ref, legs: moveLegs({ kind, pnode, credits }), pnode, credits, note };
}

function freeRef(chain: Chain, name: string): string {
  let ref = name;
  for (let part = 2; chain.has(ref); part++) ref = `${name}/${part}`;
  return ref;
}
