// The store's records as the simulated world sees them: for checkers, faults that aim, and mutants.

import type { Sha256 } from "../src/core/ids.ts";
import type { SessionRecord, VNodeRecord } from "../src/orchestrator/records/records.ts";
import type { SimulatedStore } from "./store.ts";

/** The store's records as of now, without waiting. */
export class Records {
  readonly #values = new Map<string, object>();

  constructor(store: SimulatedStore) {
    store.onWrite(({ key, after }) => {
      if (after === undefined) this.#values.delete(key);
      else this.#values.set(key, JSON.parse(after) as object);
    });
  }

  vnode(session: string, vnode: string): VNodeRecord | undefined {
    return this.#values.get(`vnode/${session}/${vnode}`) as VNodeRecord | undefined;
  }

  /** The checkpoints that records name now. */
  checkpoints(): Sha256[] {
    return this.#vnodes().flatMap(({ durable }) => Object.values(durable).map(({ hash }) => hash));
  }

  /** PNodes that own something. */
  owners(): string[] {
    return [...new Set(this.#vnodes().flatMap(({ members }) => members.map(({ pnode }) => pnode)))].sort();
  }

  #vnodes(): VNodeRecord[] {
    return [...this.#values].flatMap(([key, value]) => (key.startsWith("vnode/") ? [value as VNodeRecord] : []));
  }

  session(id: string): SessionRecord | undefined {
    return this.#values.get(`session/${id}`) as SessionRecord | undefined;
  }
}
