// One chain of the ledger as far as it has been read: balances, what was paid and what may vest. Judges each block before
// it counts. No I/O: writers, verifiers and the simulator's checker use the same rules.

import type { PNodeId, Sha256, VNodeId } from "../../core/ids.ts";
import { account, creditsOf, debtorOf, mayBeNegative, payoutsChain } from "./accounts.ts";
import {
  type Block,
  hashOfBlock,
  type Legs,
  type Move,
  type Settle,
  type Share,
  type Slash,
  type Transfer,
  type Work,
} from "./block.ts";
import { paidWith } from "./losses.ts";
import { GrowingTree, leafHash } from "./merkle.ts";

interface Pending {
  readonly to: number;
  readonly credits: number;
}

/** The last interval of a VNode that was paid, and to whom: its copies share it. */
interface Paid {
  readonly from: number;
  readonly to: number;
  readonly pnodes: readonly PNodeId[];
}

export class Chain {
  readonly name: string;
  readonly balances = new Map<string, number>();
  readonly #refs = new Set<string>();
  readonly #paid = new Map<VNodeId, Paid>();
  readonly #audited = new Set<string>();
  readonly #pending = new Map<PNodeId, Pending[]>();
  /** What slashes have made good, and in which turn of the session. */
  readonly #madeGood: { readonly turn: number; readonly shares: readonly Share[] }[] = [];
  readonly #tree = new GrowingTree();
  #last = "";

  constructor(name: string) {
    this.name = name;
  }

  /** Blocks so far. */
  get size(): number {
    return this.#tree.size;
  }

  /** Hash of the last block; empty while there is none. */
  get last(): string {
    return this.#last;
  }

  /** Of the tree over all blocks' hashes. */
  get root(): Sha256 {
    return this.#tree.root;
  }

  balance(name: string): number {
    return this.balances.get(name) ?? 0;
  }

  /** What the session has spent: all that was ever paid for its work. */
  get spent(): number {
    return -this.balance(account.mint(this.name));
  }

  has(ref: string): boolean {
    return this.#refs.has(ref);
  }

  /** The step up to which a VNode's work is paid. */
  paidTo(vnode: VNodeId): number {
    return this.#paid.get(vnode)?.to ?? 0;
  }

  /** Whether an auditor was paid for an interval. */
  isAudited(work: Omit<Work, "credits">): boolean {
    return this.#audited.has(auditOf(work));
  }

  /** What was made good to whom in the session's turns from `turn` on, by whichever convict. */
  madeGoodSince(turn: number): Share[] {
    return this.#madeGood.filter((one) => one.turn >= turn).flatMap(({ shares }) => shares);
  }

  /** What vests if everything for steps up to `upTo` does, in the order in which PNodes were first paid. */
  vestable(upTo: number): Share[] {
    const shares: Share[] = [];
    for (const [pnode, pending] of this.#pending) {
      let credits = 0;
      for (const one of pending) if (one.to <= upTo) credits += one.credits;
      if (credits > 0) shares.push({ pnode, credits });
    }
    return shares;
  }

  /** What is wrong with a block that comes next; empty: nothing. */
  problems(block: Block): string[] {
    const { transfer } = block;
    const where = `${block.chain}/${block.index}`;
    const found: string[] = [];
    if (block.chain !== this.name || block.index !== this.size || block.previous !== this.#last)
      found.push(`${where} does not follow the block before it`);
    if (this.#refs.has(transfer.ref)) found.push(`${where}: "${transfer.ref}" has been done already`);
    return [...found, ...this.#legProblems(transfer).map((problem) => `${where}: ${problem}`)];
  }

  /** Counts the block, and says what was wrong with it: a verifier goes on to find everything. */
  take(block: Block): string[] {
    const found = this.problems(block);
    this.count(block);
    return found;
  }

  /** Counts a block that was judged before; `hash` is its text's, for whoever has that at hand. */
  count(block: Block, hash: Sha256 = hashOfBlock(block)): void {
    const { transfer } = block;
    this.#refs.add(transfer.ref);
    for (const [name, amount] of Object.entries(transfer.legs)) {
      const now = this.balance(name) + amount;
      if (now === 0) this.balances.delete(name);
      else this.balances.set(name, now);
    }
    if (transfer.kind === "settle") this.#settled(transfer);
    if (transfer.kind === "slash") this.#slashed(transfer);
    this.#last = hash;
    this.#tree.add(leafHash(this.#last));
  }

  #slashed({ convict, losses, legs, turn, bonded = [] }: Slash): void {
    this.#pending.delete(convict);
    if (turn === undefined) return;
    const taken = -(legs[account.escrow(this.name, convict)] ?? 0);
    this.#madeGood.push({ turn, shares: [...paidWith(losses, taken), ...bonded] });
  }

  #settled({ work, vests, upTo }: Settle): void {
    for (const one of work) {
      if (one.role === "auditor") this.#audited.add(auditOf(one));
      else this.#paid.set(one.vnode, withWork(this.#paid.get(one.vnode), one));
      const pending = this.#pending.get(one.pnode) ?? [];
      this.#pending.set(one.pnode, pending);
      pending.push({ to: one.to, credits: one.credits });
    }
    for (const { pnode } of vests) {
      const left = (this.#pending.get(pnode) ?? []).filter(({ to }) => to > upTo);
      if (left.length === 0) this.#pending.delete(pnode);
      else this.#pending.set(pnode, left);
    }
  }

  #legProblems(transfer: Transfer): string[] {
    const found: string[] = [];
    const amounts = Object.values(transfer.legs);
    if (amounts.reduce((sum, amount) => sum + amount, 0) !== 0) found.push("its legs do not sum to zero");
    for (const [name, amount] of Object.entries(transfer.legs)) {
      if (!Number.isSafeInteger(amount) || amount === 0) found.push(`${name} gets ${amount}`);
      const now = this.balance(name) + amount;
      if (!Number.isSafeInteger(now)) found.push(`${name} grows beyond what can be counted`);
      if (amount >= 0) continue;
      if (debtorOf(name) !== this.name) found.push(`${name} is debited by ${this.name}`);
      // What is available comes from the chains of sessions: whether there is enough, only all of them together tell.
      else if (now < 0 && !mayBeNegative(name) && !name.startsWith("available/")) found.push(`${name} falls to ${now}`);
    }
    const expected = this.#expectedLegs(transfer, found);
    if (!isSame(expected, transfer.legs)) found.push("its legs are not what it says");
    return found;
  }

  #expectedLegs(transfer: Transfer, found: string[]): Legs {
    switch (transfer.kind) {
      case "settle":
        found.push(...this.#workProblems(transfer.work), ...this.#vestProblems(transfer));
        return settleLegs(this.name, transfer);
      case "slash":
        return slashLegs(this, transfer);
      default:
        if (this.name !== payoutsChain) found.push(`${transfer.ref} belongs to ${payoutsChain}`);
        return moveLegs(transfer);
    }
  }

  #workProblems(work: readonly Work[]): string[] {
    const found: string[] = [];
    const paid = new Map<VNodeId, Paid>();
    const audited = new Set<string>();
    for (const one of work) {
      const what = `steps ${one.from} to ${one.to} of ${one.vnode} by ${one.pnode}`;
      if (one.to <= one.from) found.push(`${what} are none`);
      if (one.credits !== creditsOf(one.flops, one.from, one.to)) found.push(`${what} are not worth ${one.credits}`);
      if (one.role === "auditor") {
        if (this.isAudited(one) || audited.has(auditOf(one))) found.push(`the check of ${what} is paid twice`);
        audited.add(auditOf(one));
        continue;
      }
      const before = paid.get(one.vnode);
      if (one.from < (before?.to ?? this.paidTo(one.vnode)) && !isCopyOf(before, one))
        found.push(`${what} are paid twice`);
      paid.set(one.vnode, withWork(before, one));
    }
    return found;
  }

  #vestProblems({ vests, upTo, work }: Settle): string[] {
    const found: string[] = [];
    const vestable = new Map(this.vestable(upTo).map(({ pnode, credits }) => [pnode, credits]));
    if (vests.length > 0 && work.some(({ to }) => to <= upTo)) found.push("what it pays vests at once");
    if (new Set(vests.map(({ pnode }) => pnode)).size !== vests.length) found.push("a PNode vests twice");
    for (const { pnode, credits } of vests)
      if (vestable.get(pnode) !== credits)
        found.push(`${credits} of ${pnode} vest, ${vestable.get(pnode) ?? 0} are old enough`);
    return found;
  }
}

function auditOf({ vnode, from, to, pnode }: Pick<Work, "vnode" | "from" | "to" | "pnode">): string {
  return `${vnode} ${from} ${to} ${pnode}`;
}

/** Another owner of the same VNode that computed the same, in the same settlement. */
function isCopyOf(paid: Paid | undefined, { from, to, pnode }: Work): boolean {
  return paid !== undefined && paid.from === from && paid.to === to && !paid.pnodes.includes(pnode);
}

function withWork(paid: Paid | undefined, work: Work): Paid {
  const { from, to, pnode } = work;
  return paid && isCopyOf(paid, work) ? { ...paid, pnodes: [...paid.pnodes, pnode] } : { from, to, pnodes: [pnode] };
}

export function settleLegs(session: string, { work, vests }: Pick<Settle, "work" | "vests">): Legs {
  const legs = new Sums();
  for (const { pnode, credits } of work) {
    legs.add(account.mint(session), -credits);
    legs.add(account.escrow(session, pnode), credits);
  }
  for (const { pnode, credits } of vests) {
    legs.add(account.escrow(session, pnode), -credits);
    legs.add(account.available(pnode), credits);
  }
  return legs.all();
}

/** Losses are made good in the order in which they stand, as far as what the convict has reaches; nobody gains by them. */
export function slashLegs(chain: Chain, { convict, losses }: Pick<Slash, "convict" | "losses">): Legs {
  const { name } = chain;
  const from = name === payoutsChain ? account.bond(convict) : account.escrow(name, convict);
  const legs = new Sums();
  const taken = chain.balance(from);
  legs.add(from, -taken);
  let left = taken;
  for (const { pnode, credits } of paidWith(losses, taken)) {
    legs.add(account.available(pnode), credits);
    left -= credits;
  }
  legs.add(account.forfeit(name), left);
  return legs.all();
}

export function moveLegs({ kind, pnode, credits }: Pick<Move, "kind" | "pnode" | "credits">): Legs {
  const own = account.available(pnode);
  switch (kind) {
    case "payout":
      return { [own]: -credits, [account.outside(pnode)]: credits };
    case "bond":
      return { [own]: -credits, [account.bond(pnode)]: credits };
    case "release":
      return { [account.bond(pnode)]: -credits, [own]: credits };
  }
}

function isSame(a: Legs, b: Legs): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}

class Sums {
  readonly #sums = new Map<string, number>();

  add(name: string, amount: number): void {
    this.#sums.set(name, (this.#sums.get(name) ?? 0) + amount);
  }

  /** Without what comes to nothing. */
  all(): Legs {
    return Object.fromEntries([...this.#sums].filter(([, amount]) => amount !== 0));
  }
}
