// Appends to one chain in the store. Any number of writers share a chain: a block is created under its index or not at all,
// and whoever was slower reads what came in between and decides anew. A lost reply needs no care of its own: the block is
// found by reading, and what it did is done.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { Backoff, Retries } from "../../core/retry.ts";
import { sleep, type World } from "../../core/world.ts";
import type { StateStore } from "../../store/records/state-store.ts";
import { key, prefix } from "../records/store-keys.ts";
import { type Block, parseBlock, type Transfer, textOfBlock } from "./block.ts";
import { Chain } from "./chain.ts";

type StoreWorld = Pick<World, "clock" | "timers" | "chance">;

const delayMsMin = 1;
const conflictDelayMsMax = 50;
const outageDelayMsMax = 1_000;
const patienceMs = 15_000;

export class ChainWriter {
  readonly chain: Chain;
  readonly #store: StateStore;
  readonly #world: StoreWorld;
  readonly #owner: string;
  /** Reads and writes of this handle one after the other, so that none of them finds the chain half read. */
  #turn: Promise<unknown> = Promise.resolve();
  #isNamed = false;
  /** How often another writer was faster. */
  conflicts = 0;

  /** `owner`: whose budget the chain counts towards, if this is the first to write it. */
  constructor(store: StateStore, name: string, world: StoreWorld, owner = "") {
    this.#owner = owner;
    this.#store = store;
    this.#world = world;
    this.chain = new Chain(name);
  }

  /** Reads what others have added. */
  catchUp(): Promise<void> {
    return this.#inTurn(() => this.#catchUp());
  }

  /**
   * Writes what `next` says, until it has nothing more to say; it sees the chain as it is and must only compute. Returns what
   * this call wrote.
   */
  append(next: (chain: Chain) => Transfer | undefined): Promise<Transfer[]> {
    return this.#inTurn(async () => {
      const retries = this.#retries();
      const conflicts = new Backoff(delayMsMin, conflictDelayMsMax, this.#world.chance);
      const written: Transfer[] = [];
      for (;;) {
        try {
          const transfer = next(this.chain);
          if (transfer === undefined) return written;
          if (await this.#write(transfer)) {
            written.push(transfer);
            continue;
          }
          this.conflicts += 1;
          await sleep(this.#world.timers, conflicts.next());
          await this.#catchUp();
        } catch (thrown) {
          await retries.again(thrown);
          await this.#catchUpWith(retries);
        }
      }
    });
  }

  /** False if another writer was faster. */
  async #write(transfer: Transfer): Promise<boolean> {
    const { chain } = this;
    const block: Block = { chain: chain.name, index: chain.size, previous: chain.last, transfer };
    const problems = chain.problems(block);
    assert(problems.length === 0, problems.join("; "));
    await this.#name();
    const text = textOfBlock(block);
    if ((await this.#store.put(key.block(chain.name, chain.size), text, 0)) === undefined) return false;
    chain.count(block, sha256(text));
    return true;
  }

  /** So that all chains are found without reading them. */
  async #name(): Promise<void> {
    if (this.#isNamed) return;
    if (this.chain.size === 0) {
      const { name } = this.chain;
      await this.#store.put(key.chain(name), JSON.stringify({ name, owner: this.#owner }), 0);
    }
    this.#isNamed = true;
  }

  async #catchUpWith(retries: Retries): Promise<void> {
    for (;;) {
      try {
        return await this.#catchUp();
      } catch (thrown) {
        await retries.again(thrown);
      }
    }
  }

  async #catchUp(): Promise<void> {
    const { chain } = this;
    for (;;) {
      const after = chain.size === 0 ? {} : { after: key.block(chain.name, chain.size - 1) };
      const page = await this.#store.list(prefix.blocksOf(chain.name), after);
      for (const item of page.items) {
        const block = parseBlock(item.value, `the store's record ${item.key}`);
        const problems = chain.problems(block);
        if (problems.length > 0)
          fail("data_loss", `the ledger was tampered with: ${problems.join("; ")}; restore the store from a copy`);
        // Of the text as it stands there: whoever rewrites it, be it with the same meaning, breaks the chain.
        chain.count(block, sha256(item.value));
      }
      if (page.next === undefined) return;
    }
  }

  #retries(): Retries {
    return new Retries({
      world: this.#world,
      minMs: delayMsMin,
      maxMs: outageDelayMsMax,
      patienceMs,
      rounds: 1,
    });
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#turn;
    const own = before.catch(() => {}).then(work);
    this.#turn = own;
    return own;
  }
}
