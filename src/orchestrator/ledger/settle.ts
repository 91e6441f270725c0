// What is to be written next into a session's chain: pure functions of the chain as it is and of what has become final or
// was decided. Each gives one block's worth, or nothing once all is done; so whoever asks again after a crash, or at the
// same time as another, pays nobody twice.

import type { PNodeId } from "../../core/ids.ts";
import { account, creditsOf } from "./accounts.ts";
import type { Move, Settle, Share, Slash, Transfer, Work } from "./block.ts";
import { type Chain, moveLegs, settleLegs, slashLegs } from "./chain.ts";

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
}

/** In a session's chain the convict's escrow goes, in the payouts its bond. */
export function slashing(chain: Chain, { id, convict, losses }: Conviction): Slash | undefined {
  const ref = `slash/${id}`;
  if (chain.has(ref)) return undefined;
  const most = losses.slice(0, sharesMax);
  return { kind: "slash", ref, legs: slashLegs(chain, { convict, losses: most }), convict, losses: most };
}

/** What is left of losses after a slash has made good some of them. */
export function lossesLeft({ losses, legs }: Pick<Slash, "losses" | "legs">): Share[] {
  const made = new Map(Object.entries(legs));
  return losses.flatMap(({ pnode, credits }) => {
    const name = account.available(pnode);
    const paid = Math.min(credits, made.get(name) ?? 0);
    made.set(name, (made.get(name) ?? 0) - paid);
    return credits > paid ? [{ pnode, credits: credits - paid }] : [];
  });
}

export interface MoveRequest extends Pick<Move, "kind" | "pnode" | "credits" | "note"> {
  /** Chosen by whoever asks: the same again changes nothing. */
  readonly id: string;
}

/** A reason instead of a transfer: what is asked for is not there. */
export type Refusal = { readonly refused: string };

/** `credited`: what the chains of sessions have credited to the PNode, as far as they were read: it never shrinks. */
export function moving(
  payouts: Chain,
  { id, kind, pnode, credits, note }: MoveRequest,
  credited: number,
  escrowed: number,
): Transfer | Refusal | undefined {
  const ref = `${kind}/${id}`;
  if (payouts.has(ref)) return undefined;
  const have =
    kind === "release" ? payouts.balance(account.bond(pnode)) : credited + payouts.balance(account.available(pnode));
  const from = kind === "release" ? "laid down" : "available";
  if (credits > have) return { refused: `${have} credits of ${pnode} are ${from}, ${credits} were asked for` };
  if (kind === "release" && escrowed > 0)
    return { refused: `${escrowed} credits of ${pnode} have not vested yet: a bond is free once all work has` };
  return { kind, ref, legs: moveLegs({ kind, pnode, credits }), pnode, credits, note };
}

function freeRef(chain: Chain, name: string): string {
  let ref = name;
  for (let part = 2; chain.has(ref); part++) ref = `${name}/${part}`;
  return ref;
}
