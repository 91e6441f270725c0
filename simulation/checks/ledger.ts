// The ledger, as the store's writes tell it: credits are neither made nor lost by any block, each interval of a VNode is paid
// once, and none before it is final; nobody is given more for lost work than it has lost. Counted by hand from the records, with nothing of the ledger's own.

import type { Block } from "../../src/orchestrator/ledger/block.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { AcceptedWrite } from "../world/store.ts";
import { LossChecker } from "./losses.ts";

export class LedgerChecker {
  readonly #wrong: (atMs: number, message: string) => void;
  /** By session: the furthest step behind which it could not go back, ever. */
  readonly #final = new Map<string, number>();
  /** By session, VNode and step: how often it is paid in which block. */
  readonly #paid = new Map<string, string>();
  readonly #losses: LossChecker;
  #atMs = 0;
  blocks = 0;

  constructor(wrong: (atMs: number, message: string) => void) {
    this.#wrong = wrong;
    this.#losses = new LossChecker((message) => wrong(this.#atMs, message));
  }

  wrote({ atMs, key, before, after }: AcceptedWrite): void {
    this.#atMs = atMs;
    if (after !== undefined) this.#follow(key.split("/")[0] ?? "", after);
    if (!key.startsWith("block/")) return;
    if (before !== undefined || after === undefined) this.#wrong(atMs, `${key} was changed or deleted`);
    else this.#check(atMs, key, JSON.parse(after) as Block);
  }

  #follow(kind: string, text: string): void {
    if (kind === "session") {
      const session = JSON.parse(text) as SessionRecord;
      this.#moveFinal(session);
      this.#losses.wroteSession(session);
    }
    if (kind === "vnode") this.#losses.wroteVNode(JSON.parse(text));
    if (kind === "interval") this.#losses.wroteInterval(JSON.parse(text));
  }

  #moveFinal({ id, status, line, lineBefore, final }: SessionRecord): void {
    const over = status === "done" || status === "deleted";
    this.#final.set(id, Math.max(this.#final.get(id) ?? 0, final ?? (over ? line : lineBefore)));
  }

  #check(atMs: number, key: string, { chain, transfer }: Block): void {
    this.blocks += 1;
    const sum = Object.values(transfer.legs).reduce((left, amount) => left + amount, 0);
    if (sum !== 0) this.#wrong(atMs, `${key}: its legs sum to ${sum}`);
    // In the payouts the name of the case says which session it is about.
    if (transfer.kind === "slash") {
      const session = chain === "payouts" ? (transfer.ref.split("/")[1] ?? "") : chain;
      this.#losses.wroteSlash(key, session, transfer);
    }
    if (transfer.kind !== "settle") return;
    for (const { vnode, from, to, pnode, role } of transfer.work) {
      if (to > (this.#final.get(chain) ?? 0))
        this.#wrong(atMs, `${key} pays steps up to ${to} of ${vnode}, final are ${this.#final.get(chain) ?? 0}`);
      for (let step = from + 1; step <= to; step++) {
        const name = `${chain} ${vnode} ${step}${role === "auditor" ? ` ${pnode}` : ""}`;
        const earlier = this.#paid.get(name);
        // Copies of one VNode are paid together, in one block.
        if (earlier !== undefined && earlier !== key)
          this.#wrong(atMs, `${key} pays step ${step} of ${vnode} to ${pnode}, which ${earlier} has paid`);
        this.#paid.set(name, key);
      }
    }
  }
}
