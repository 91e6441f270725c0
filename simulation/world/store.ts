// The shared StateStore as each simulated host sees it: over the network, with replies that get lost after the
// write took effect, times when nothing answers, and hints that come late or never. Accepted writes are told
// to listeners in the order in which they took effect, for the checkers.

import { DcnrError } from "../../src/core/errors.ts";
import type { Cancel } from "../../src/core/world.ts";
import { openMemoryStore } from "../../src/store/memory.ts";
import type { ListPage, StateStore, StoredItem } from "../../src/store/records/state-store.ts";
import type { Host, SimulatedWorld } from "./world.ts";

export interface StoreFaults {
  /** Of a write whose reply is lost although it took effect. */
  replyLost: number;
  /** Of any request that never reaches the store. */
  requestLost: number;
  hintDropped: number;
  /** Hints come up to this much late. */
  hintDelayMs: number;
}

export const noStoreFaults: StoreFaults = { replyLost: 0, requestLost: 0, hintDropped: 0, hintDelayMs: 5 };

export interface AcceptedWrite {
  readonly atMs: number;
  readonly host: string;
  readonly key: string;
  readonly before: string | undefined;
  /** Undefined for a deletion. */
  readonly after: string | undefined;
}

/** How long a client waits before it calls an outcome unknown. */
const clientTimeoutMs = 1_500;

export class SimulatedStore {
  readonly world: SimulatedWorld;
  readonly inner: StateStore = openMemoryStore();
  faults: StoreFaults = noStoreFaults;
  /** While there is one nobody gets an answer. */
  outages = 0;
  /** Who hears no hints about which records. */
  readonly deaf = new Set<{ readonly host: string; readonly prefix: string }>();
  readonly #listeners: ((write: AcceptedWrite) => void)[] = [];

  constructor(world: SimulatedWorld) {
    this.world = world;
  }

  onWrite(listener: (write: AcceptedWrite) => void): void {
    this.#listeners.push(listener);
  }

  isDeaf(host: string, prefix: string): boolean {
    return [...this.deaf].some((ear) => ear.host === host && ear.prefix === prefix);
  }

  view(host: Host): StateStore {
    return new StoreView(this, host);
  }

  async write(host: Host, key: string, value: string | undefined, expected: number): Promise<number | undefined> {
    const before = (await this.inner.get(key))?.value;
    const version =
      value === undefined
        ? (await this.inner.delete(key, expected))
          ? expected
          : undefined
        : await this.inner.put(key, value, expected);
    if (version !== undefined) {
      const write = { atMs: this.world.time.nowMs, host: host.name, key, before, after: value };
      this.world.trace.event(write.atMs, host.name, `wrote ${key}`, () => value ?? "(deleted)");
      for (const listener of this.#listeners) listener(write);
    }
    return version;
  }
}

class StoreView implements StateStore {
  readonly #store: SimulatedStore;
  readonly #host: Host;
  readonly #watches = new Set<Cancel>();

  constructor(store: SimulatedStore, host: Host) {
    this.#store = store;
    this.#host = host;
  }

  get(key: string): Promise<StoredItem | undefined> {
    return this.#request("get", key, () => this.#store.inner.get(key));
  }

  put(key: string, value: string, expected: number): Promise<number | undefined> {
    return this.#request("put", key, () => this.#store.write(this.#host, key, value, expected));
  }

  delete(key: string, expected: number): Promise<boolean> {
    const remove = async () => (await this.#store.write(this.#host, key, undefined, expected)) !== undefined;
    return this.#request("delete", key, remove);
  }

  list(prefix: string, options?: { after?: string; limit?: number }): Promise<ListPage> {
    return this.#request("list", prefix, () => this.#store.inner.list(prefix, options));
  }

  watch(prefix: string, onHint: (keys: readonly string[]) => void): Cancel {
    const { chance } = this.#store.world;
    const cancel = this.#store.inner.watch(prefix, (keys) => {
      if (!this.#host.alive) return;
      const { faults } = this.#store;
      if (this.#store.isDeaf(this.#host.name, prefix)) return this.#fault("hint unheard", keys[0] ?? prefix);
      if (this.#store.outages > 0 || chance.happens(faults.hintDropped))
        return this.#fault("hint dropped", keys[0] ?? prefix);
      this.#host.after(chance.between(1, faults.hintDelayMs), () => onHint(keys));
    });
    this.#watches.add(cancel);
    return cancel;
  }

  async close(): Promise<void> {
    for (const cancel of this.#watches) cancel();
    this.#watches.clear();
  }

  /** There and back, each way with a delay; runs `act` when the request arrives. */
  #request<T>(what: "get" | "put" | "delete" | "list", key: string, act: () => Promise<T>): Promise<T> {
    const { world, faults } = this.#store;
    const { chance, time } = world;
    const writes = what === "put" || what === "delete";
    const delay = () => chance.between(0.3, 1.5) * this.#host.slowness;
    return new Promise((resolve, reject) => {
      const unknown = () =>
        this.#host.after(clientTimeoutMs, () =>
          reject(new DcnrError("unavailable", `the store did not answer ${what} ${key}: its outcome is unknown`)),
        );
      if (chance.happens(faults.requestLost)) {
        this.#fault("store request lost", `${what} ${key}`);
        unknown();
        return;
      }
      // The store acts even if the host is paused or gone by then: the request is on its way already.
      time.after(delay(), () => {
        if (this.#store.outages > 0) return unknown();
        act().then(
          (result) => {
            if (writes && chance.happens(this.#store.faults.replyLost)) {
              this.#fault("store reply lost", `${what} ${key}`);
              return unknown();
            }
            this.#host.after(delay(), () => resolve(result));
          },
          (error) => this.#host.after(delay(), () => reject(error)),
        );
      });
    });
  }

  #fault(kind: string, detail: string): void {
    const { world } = this.#store;
    world.trace.fault(world.time.nowMs, kind, this.#host.name, detail);
  }
}
