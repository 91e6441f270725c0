// Makes and follows the signed heads in the store. Every orchestrator may make the next one; whoever is first wins, and the
// others take it. Without the network's key (in tests) there are none.

import { canonicalJson } from "../../core/hash.ts";
import type { Identity } from "../../core/keys.ts";
import { parseItem } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import { key, prefix } from "../records/store-keys.ts";
import { type ChainEnd, hashOfHead, rootOfEnds, type SignedHead, signHead, sortedEnds } from "./heads.ts";
import type { Ledger } from "./ledger.ts";

/** Older ones are dropped. */
const headsKept = 10_000;
/** Whoever asks for a head makes one no more often than this. */
const madeEveryMs = 10_000;

export interface MadeHead {
  readonly head: SignedHead;
  readonly ends: readonly ChainEnd[];
}

export class HeadsKeeper {
  readonly #context: Context;
  readonly #ledger: Ledger;
  readonly #identity: Identity | undefined;
  #made: (MadeHead & { readonly atMs: number }) | undefined;
  /** The newest that this orchestrator knows. */
  newest: SignedHead | undefined;

  constructor(context: Context, ledger: Ledger, identity: Identity | undefined) {
    this.#context = context;
    this.#ledger = ledger;
    this.#identity = identity;
  }

  start(): void {
    const { tasks, timings } = this.#context;
    if (this.#identity) tasks.every("the head of the ledger", timings.ledgerHeadMs, () => this.#tick());
  }

  /** One for all orchestrators will do: whoever finds a new one makes none. */
  async #tick(): Promise<void> {
    const known = this.newest?.number ?? 0;
    await this.#follow();
    if ((this.newest?.number ?? 0) === known) await this.#make();
  }

  /** A head with what it speaks for, so that whoever gets it can check all of it; undefined without a key. */
  async current(): Promise<MadeHead | undefined> {
    const nowMs = this.#context.world.clock.monotonicMs();
    if (this.#made === undefined || nowMs - this.#made.atMs >= madeEveryMs) {
      await this.#follow();
      await this.#make();
    }
    return this.#made;
  }

  async #follow(): Promise<void> {
    const { items } = await this.#context.mirror.store.list(prefix.heads, { limit: 1 });
    const [item] = items;
    if (item) this.newest = parseItem<SignedHead>(item).record;
  }

  async #make(): Promise<void> {
    if (!this.#identity) return;
    const { world, mirror } = this.#context;
    await this.#ledger.refresh(true);
    const ends = sortedEnds(this.#ledger.chains());
    const root = rootOfEnds(ends);
    const before = this.newest;
    let head = before;
    if (head === undefined || head.root !== root) {
      const number = (before?.number ?? 0) + 1;
      const previous = before ? hashOfHead(before) : "";
      const wallMs = Math.round(world.clock.wallMs());
      head = signHead({ number, previous, root, chains: ends.length, wallMs }, this.#identity);
      // Another orchestrator was faster: its head is found with the next.
      if ((await mirror.store.put(key.head(number), canonicalJson(head), 0)) === undefined) return;
      this.newest = head;
      await this.#drop(number - headsKept);
    }
    this.#made = { head, ends, atMs: world.clock.monotonicMs() };
  }

  async #drop(number: number): Promise<void> {
    const { store } = this.#context.mirror;
    const old = number > 0 ? await store.get(key.head(number)) : undefined;
    if (old) await store.delete(old.key, old.version);
  }
}
