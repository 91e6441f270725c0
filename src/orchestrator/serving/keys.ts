// API keys: random secrets of which only the hash is kept, with scopes and a rate. Callers on the same machine
// need none, unless the operator says so; everyone else does.

import { DcnrError, fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { Recent } from "../../core/recent.ts";
import type { World } from "../../core/world.ts";
import { isLoopback } from "../../protocol/address.ts";
import type { KeyScope } from "../../protocol/network.ts";
import type { StateStore } from "../../store/state-store.ts";

export type Scope = KeyScope;
export const scopes: readonly Scope[] = ["generate", "read", "train", "admin"];

/** Whoever trains may see what there is to train on, and administrators may do everything. */
function covers(held: Scope, needed: Scope): boolean {
  return held === needed || held === "admin" || (held === "train" && needed === "read");
}

export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  readonly hash: string;
  readonly scopes: readonly Scope[];
  /** 0: no limit. */
  readonly requestsPerMinute: number;
  readonly createdWallMs: number;
}

/** A key's rate is used up. */
export class TooManyRequests extends DcnrError {
  /** When the next request is allowed. */
  readonly waitMs: number;

  constructor(message: string, waitMs: number) {
    super("resource_exhausted", message);
    this.waitMs = waitMs;
  }
}

const prefix = "key/";
/** Keys change rarely; a deleted one works this much longer at most. */
const cacheMs = 5_000;
/** Callers may invent keys; what is remembered of them stays small. */
const cachedMax = 10_000;

export class ApiKeys {
  readonly #store: StateStore;
  readonly #world: World;
  readonly #trustsLoopback: boolean;
  readonly #cache = new Recent<string, { record: KeyRecord | undefined; readMs: number }>(cachedMax);
  readonly #buckets = new Map<string, Bucket>();

  /** `trustsLoopback`: false behind a proxy on the same machine, where every caller looks local. */
  constructor(store: StateStore, world: World, trustsLoopback: boolean) {
    this.#store = store;
    this.#world = world;
    this.#trustsLoopback = trustsLoopback;
  }

  async create(
    name: string,
    wanted: readonly string[],
    requestsPerMinute: number,
  ): Promise<{ key: KeyRecord; secret: string }> {
    const unknown = wanted.find((scope) => !scopes.includes(scope as Scope));
    if (unknown !== undefined)
      fail("invalid_argument", `there is no scope "${unknown}": choose from ${scopes.join(", ")}`);
    if (wanted.length === 0) fail("invalid_argument", `a key needs at least one scope: ${scopes.join(", ")}`);
    const id = Buffer.from(this.#world.chance.bytes(6)).toString("hex");
    const secret = `dcnr-${id}-${Buffer.from(this.#world.chance.bytes(24)).toString("base64url")}`;
    const key: KeyRecord = {
      id,
      name,
      hash: sha256(secret),
      scopes: wanted as Scope[],
      requestsPerMinute,
      createdWallMs: this.#world.clock.wallMs(),
    };
    const written = await this.#store.put(prefix + id, JSON.stringify(key), 0);
    // Two equal draws of 48 bits mean a broken source of chance, not bad luck.
    if (written === undefined) fail("aborted", `a key with the id ${id} exists already: try again`);
    return { key, secret };
  }

  async list(): Promise<KeyRecord[]> {
    const { items } = await this.#store.list(prefix);
    return items.map(({ value }) => JSON.parse(value) as KeyRecord);
  }

  async delete(id: string): Promise<void> {
    const item = await this.#store.get(prefix + id);
    if (!item) fail("not_found", `there is no key ${id}: see dcnr key list`);
    await this.#store.delete(item.key, item.version);
    this.#cache.delete(id);
    this.#buckets.delete(id);
  }

  /** Lets the caller in or fails with what is missing. `authorization` is the header as it came. */
  async require(scope: Scope, authorization: string | undefined, peer: string): Promise<void> {
    const secret = authorization?.replace(/^Bearer\s+/i, "");
    const id = /^dcnr-([0-9a-f]{12})-/.exec(secret ?? "")?.[1];
    if (id === undefined || secret === undefined) {
      if (this.#trustsLoopback && isLoopback(peer.replace(/^::ffff:/, ""))) return;
      fail(
        "unauthenticated",
        "this server needs an API key, made with dcnr key create: send Authorization: Bearer KEY, or use --api-key KEY",
      );
    }
    const record = await this.#lookUp(id);
    if (!record || record.hash !== sha256(secret)) fail("unauthenticated", "the API key is not known here");
    if (!record.scopes.some((held) => covers(held, scope)))
      fail("permission_denied", `the API key "${record.name}" lacks the scope ${scope}`);
    const waitMs = record.requestsPerMinute > 0 ? this.#take(record) : 0;
    if (waitMs > 0)
      throw new TooManyRequests(
        `the API key "${record.name}" allows ${record.requestsPerMinute} requests a minute: slow down`,
        waitMs,
      );
  }

  async #lookUp(id: string): Promise<KeyRecord | undefined> {
    const nowMs = this.#world.clock.monotonicMs();
    const cached = this.#cache.get(id);
    if (cached && nowMs - cached.readMs < cacheMs) return cached.record;
    const item = await this.#store.get(prefix + id);
    const record = item ? (JSON.parse(item.value) as KeyRecord) : undefined;
    this.#cache.set(id, { record, readMs: nowMs });
    return record;
  }

  #take(record: KeyRecord): number {
    const bucket = this.#buckets.get(record.id) ?? new Bucket(record.requestsPerMinute);
    this.#buckets.set(record.id, bucket);
    return bucket.take(this.#world.clock.monotonicMs());
  }
}

/** Fills steadily, holds at most a minute's worth. */
class Bucket {
  readonly #perMinute: number;
  #tokens: number;
  #lastMs: number | undefined;

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
    this.#tokens = perMinute;
  }

  /** 0, or how long it takes until there is one. */
  take(nowMs: number): number {
    const elapsedMs = nowMs - (this.#lastMs ?? nowMs);
    this.#lastMs = nowMs;
    this.#tokens = Math.min(this.#perMinute, this.#tokens + (elapsedMs / 60_000) * this.#perMinute);
    if (this.#tokens < 1) return ((1 - this.#tokens) / this.#perMinute) * 60_000;
    this.#tokens -= 1;
    return 0;
  }
}
