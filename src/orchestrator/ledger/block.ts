// What a chain of the ledger is made of: one block for each transfer, named by its hash, linked to the block before it.
// A transfer moves credits between accounts and says what for; its legs sum to zero.

import { fail } from "../../core/errors.ts";
import { canonicalJson, sha256 } from "../../core/hash.ts";
import type { PNodeId, Sha256, VNodeId } from "../../core/ids.ts";

/** Credits by account, whole numbers. */
export type Legs = Readonly<Record<string, number>>;

/** Steps (from, to] of a VNode that one PNode has computed, as its worker or to check another one's work. */
export interface Work {
  readonly vnode: VNodeId;
  readonly from: number;
  readonly to: number;
  readonly pnode: PNodeId;
  readonly role: "worker" | "auditor";
  /** Of one step, by the static cost model. */
  readonly flops: number;
  readonly credits: number;
}

export interface Share {
  readonly pnode: PNodeId;
  readonly credits: number;
}

interface Named {
  /** Unique in its chain: what has a name is done once. */
  readonly ref: string;
  readonly legs: Legs;
}

/** Work that is final is paid into escrow, and what was paid for steps up to `upTo` vests. */
export interface Settle extends Named {
  readonly kind: "settle";
  readonly work: readonly Work[];
  readonly upTo: number;
  readonly vests: readonly Share[];
}

/** A convict's escrow (in a session's chain) or bond (in the payouts) goes to those whose work was lost through it. */
export interface Slash extends Named {
  readonly kind: "slash";
  readonly convict: PNodeId;
  /** What each has lost that was not made good before this. */
  readonly losses: readonly Share[];
  /** In a session's chain: its turn by then. Whoever else is convicted for work that was lost up to there makes good what is left of it. */
  readonly turn?: number;
  /** In a session's chain, of a convict whose bond is lost too: which of these the bond makes good. It counts from here on. */
  readonly bonded?: readonly Share[];
}

/** Moves a PNode's own credits: out of DCNR, into its bond, or back from there. */
export interface Move extends Named {
  readonly kind: "payout" | "bond" | "release";
  readonly pnode: PNodeId;
  readonly credits: number;
  /** For people: where the money went, for example. */
  readonly note: string;
}

export type Transfer = Settle | Slash | Move;

export interface Block {
  readonly chain: string;
  readonly index: number;
  /** Hash of the block before; empty in the first. */
  readonly previous: string;
  readonly transfer: Transfer;
}

/** What is hashed, stored and exported. */
export function textOfBlock(block: Block): string {
  return canonicalJson(block);
}

export function hashOfBlock(block: Block): Sha256 {
  return sha256(textOfBlock(block));
}

/** Of a file or a store that may hold anything. Whether the block is right is for the chain to say. */
export function parseBlock(text: string, where: string): Block {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fail("data_loss", `${where} is not JSON`);
  }
  const problem = formProblem(value);
  return problem === undefined ? (value as Block) : fail("data_loss", `${where} is no block of a ledger: ${problem}`);
}

/** The first field that is not what it should be. */
function formProblem(value: unknown): string | undefined {
  if (!isObject(value)) return "not an object";
  const { chain, index, previous, transfer } = value;
  if (!isText(chain) || !isCount(index) || !isText(previous) || !isObject(transfer)) return "chain, index or previous";
  const { kind, ref, legs } = transfer;
  if (!isText(ref) || !isObject(legs)) return "ref or legs";
  if (!Object.values(legs).every(Number.isSafeInteger)) return "an amount that is not a whole number";
  switch (kind) {
    case "settle":
      if (!isCount(transfer["upTo"])) return "upTo";
      if (!isList(transfer["work"], isWork)) return "work";
      return isList(transfer["vests"], isShare) ? undefined : "vests";
    case "slash":
      if (!isText(transfer["convict"]) || !isList(transfer["losses"], isShare)) return "convict or losses";
      return isCount(transfer["turn"] ?? 0) && isList(transfer["bonded"] ?? [], isShare) ? undefined : "turn or bonded";
    case "payout":
    case "bond":
    case "release":
      return isText(transfer["pnode"]) && isCount(transfer["credits"]) && isText(transfer["note"])
        ? undefined
        : "pnode, credits or note";
    default:
      return "a transfer of an unknown kind";
  }
}

function isWork(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { vnode, pnode, role, from, to, credits, flops } = value;
  const texts = isText(vnode) && isText(pnode) && (role === "worker" || role === "auditor");
  return texts && [from, to, credits].every(isCount) && typeof flops === "number" && Number.isFinite(flops);
}

function isShare(value: unknown): boolean {
  return isObject(value) && isText(value["pnode"]) && isCount(value["credits"]);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isList(value: unknown, each: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(each);
}
