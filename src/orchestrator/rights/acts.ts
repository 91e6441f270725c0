// The log of administrative acts: who did what, on what, when, from where, and what became of it. One record of its own for
// each, which is there before the act begins and learns how it ended; nobody removes one before its time. Names of records
// carry their writer, so that several orchestrators write at once without meeting.

import { messageOf } from "../../core/errors.ts";
import type { World } from "../../core/world.ts";
import type { Caller } from "../../protocol/network.ts";
import type { StateStore } from "../../store/records/state-store.ts";
import { createItem, deleteItem, parseItem, updateItem } from "../../store/records/update.ts";
import { padded } from "../records/store-keys.ts";

export interface ActRecord {
  readonly wallMs: number;
  /** The method. */
  readonly what: string;
  readonly subject: string;
  /** The key that was shown; empty for callers on the orchestrator's machine. */
  readonly key: string;
  readonly owner: string;
  readonly address: string;
  /** "begun" stays where the orchestrator died before it knew. */
  readonly result: "begun" | "done" | "failed";
  readonly detail: string;
  readonly orchestrator: string;
}

export interface ActFilter {
  readonly what?: string;
  readonly subject?: string;
  /** A key's id or its owner. */
  readonly who?: string;
  readonly sinceWallMs?: number;
  readonly untilWallMs?: number;
  readonly limit?: number;
  readonly after?: string;
}

const prefix = "act/";
/** Newest first in the order of keys. */
const farthestWallMs = 1e14;
/** Two years: long after anybody remembers. */
export const actsKeptMs = 2 * 365 * 86_400_000;
const nameLengthMax = 200;
const detailLengthMax = 500;
const limitDefault = 100;
const limitMax = 1_000;
/** Someone who asks waits no longer than for any other write. */
const writeTimeoutMs = 5_000;
/** At once, so that a filter that fits nothing reads the log in steps that a store can bear. */
const pageSize = 500;
/** Removed in one go; the rest goes next time. */
const trimmedAtOnce = 1_000;

export class Acts {
  readonly #store: StateStore;
  readonly #world: World;
  readonly #orchestrator: string;
  readonly #writer: string;
  #count = 0;

  constructor(store: StateStore, world: World, orchestrator: string, incarnation: string) {
    this.#store = store;
    this.#world = world;
    this.#orchestrator = orchestrator;
    this.#writer = incarnation;
  }

  /** Does it, between its two entries. An act that cannot be written down is not done. */
  async log<T>(what: string, subject: string, { id, address, roles }: Caller, act: () => Promise<T>): Promise<T> {
    const wallMs = Math.round(this.#world.clock.wallMs());
    const name = `${prefix}${padded(farthestWallMs - wallMs)}-${this.#writer}-${padded(++this.#count).slice(-6)}`;
    const record: ActRecord = {
      ...{ wallMs, what, subject: subject.slice(0, nameLengthMax), key: roles?.key ?? id ?? "" },
      ...{ owner: roles?.owner ?? "", address, result: "begun", detail: "", orchestrator: this.#orchestrator },
    };
    const options = { timeoutMs: writeTimeoutMs };
    await createItem(this.#store, name, record, this.#world, options);
    const end = (result: ActRecord["result"], detail: string) =>
      updateItem<ActRecord>(this.#store, name, () => ({ ...record, result, detail }), this.#world, options).catch(
        (error: unknown) => this.#world.log("warn", `how ${what} ended was not noted: ${messageOf(error)}`),
      );
    try {
      const done = await act();
      await end("done", "");
      return done;
    } catch (error) {
      await end("failed", messageOf(error).slice(0, detailLengthMax));
      throw error;
    }
  }

  /** Newest first. */
  async list(filter: ActFilter): Promise<{ readonly acts: readonly ActRecord[]; readonly next: string }> {
    const limit = Math.min(filter.limit || limitDefault, limitMax);
    const until = filter.untilWallMs ? `${prefix}${padded(farthestWallMs - filter.untilWallMs)}` : undefined;
    const acts: ActRecord[] = [];
    let after = filter.after ? `${prefix}${filter.after}` : until;
    for (;;) {
      const page = await this.#store.list(prefix, { ...(after && { after }), limit: pageSize });
      for (const item of page.items) {
        const { record } = parseItem<ActRecord>(item);
        if (record.wallMs < (filter.sinceWallMs ?? 0)) return { acts, next: "" };
        if (fits(record, filter)) acts.push(record);
        if (acts.length === limit) return { acts, next: item.key.slice(prefix.length) };
      }
      if (page.next === undefined) return { acts, next: "" };
      after = page.next;
    }
  }

  /** Removes what is older than anybody asks for. */
  async trim(): Promise<void> {
    const after = `${prefix}${padded(farthestWallMs - (this.#world.clock.wallMs() - actsKeptMs))}`;
    const { items } = await this.#store.list(prefix, { after, limit: trimmedAtOnce });
    for (const { key } of items) await deleteItem(this.#store, key, this.#world);
  }
}

function fits(record: ActRecord, { what, subject, who }: ActFilter): boolean {
  return (
    (!what || record.what === what) &&
    (!subject || record.subject === subject) &&
    (!who || record.key === who || record.owner === who)
  );
}
