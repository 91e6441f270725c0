// What keys are good for. An API key is a random secret of which only the hash is kept; a person's own key is proved by the
// connection, and nothing of it is secret here. Both have an owner, scopes, a rate, an end, and the time of their last use.
// Callers on the same machine need none, unless the operator says so; everyone else does.

import { Recent } from "../../core/caches/recent.ts";
import { DcnrError, fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { isKeyId } from "../../core/keys.ts";
import { duration } from "../../core/words/duration.ts";
import type { World } from "../../core/world.ts";
import type { Caller, KeyScope, Roles } from "../../protocol/network.ts";
import { isLoopback } from "../../protocol/routes/address.ts";
import type { StateStore } from "../../store/records/state-store.ts";
import { createItem, listItems, readItem, updateItem } from "../../store/records/update.ts";
import { Bucket } from "./bucket.ts";

export type Scope = KeyScope;
export const scopes: readonly Scope[] = ["generate", "read", "train", "admin"];

/** Whoever trains may see what there is to train on, and administrators may do everything. */
function covers(held: Scope, needed: Scope): boolean {
  return held === needed || held === "admin" || (held === "train" && needed === "read");
}

export interface KeyRecord {
  /** Twelve digits of an API key; a person's key's own. */
  readonly id: string;
  readonly name: string;
  /** Absent in records of older versions: the name. */
  readonly owner?: string;
  /** Of the secret; absent for a person's own key, which has none that we know. */
  readonly hash?: string;
  readonly scopes: readonly Scope[];
  /** Only these networks, their sessions and models; absent: all. */
  readonly networks?: readonly string[];
  /** Only what the owner made. */
  readonly ownOnly?: boolean;
  /** 0: no limit. */
  readonly requestsPerMinute: number;
  readonly createdWallMs: number;
  /** Absent: it does not end. */
  readonly expiresWallMs?: number;
  /** Within an hour or so; absent: never. */
  readonly lastUsedWallMs?: number;
}

/** What somebody wants of a new key. */
export interface KeyWish {
  readonly name: string;
  readonly owner?: string;
  readonly scopes: readonly string[];
  readonly requestsPerMinute?: number;
  /** 0: for ever. */
  readonly lifetimeMs?: number;
  readonly networks?: readonly string[];
  readonly ownOnly?: boolean;
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
/** Use is written at most this often for a key: people ask which keys are still in use, not when to the second. */
const useNotedMs = 3_600_000;
const nameLengthMax = 100;
const networksMax = 100;
const lifetimeMsMax = 100 * 365 * 86_400_000;

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

  async create(wish: KeyWish): Promise<{ key: KeyRecord; secret: string }> {
    const id = Buffer.from(this.#world.chance.bytes(6)).toString("hex");
    const secret = `dcnr-${id}-${Buffer.from(this.#world.chance.bytes(24)).toString("base64url")}`;
    const key: KeyRecord = { id, ...this.#terms(wish), hash: sha256(secret) };
    const { written } = await createItem(this.#store, prefix + id, key, this.#world);
    // Two equal draws of 48 bits mean a broken source of chance, not bad luck.
    if (!written) fail("aborted", `a key with the id ${id} exists already: try again`);
    return { key, secret };
  }

  /** Rights for the holder of a key; those it had before end. */
  async admit(id: string, wish: KeyWish): Promise<KeyRecord> {
    if (!isKeyId(id))
      fail("invalid_argument", `${id.slice(0, 60)} is no key's id: dcnr whoami shows one's own, 52 letters and digits`);
    const terms = this.#terms(wish);
    const { record } = await updateItem<KeyRecord>(
      this.#store,
      prefix + id,
      (current) => ({ ...terms, id, ...(current?.lastUsedWallMs && { lastUsedWallMs: current.lastUsedWallMs }) }),
      this.#world,
    );
    this.#forget(id);
    return record as KeyRecord;
  }

  #terms(wish: KeyWish): Omit<KeyRecord, "id" | "hash"> {
    const { name, scopes: wanted, networks = [], ownOnly = false, requestsPerMinute = 0, lifetimeMs = 0 } = wish;
    const owner = wish.owner || name;
    const unknown = wanted.find((scope) => !scopes.includes(scope as Scope));
    if (unknown !== undefined)
      fail("invalid_argument", `there is no scope "${unknown.slice(0, 60)}": choose from ${scopes.join(", ")}`);
    if (wanted.length === 0) fail("invalid_argument", `a key needs at least one scope: ${scopes.join(", ")}`);
    if (name.length > nameLengthMax || owner.length > nameLengthMax)
      fail("invalid_argument", `names of keys and owners have at most ${nameLengthMax} letters`);
    if (networks.length > networksMax || networks.some((network) => network.length > nameLengthMax))
      fail("invalid_argument", `a key is limited to at most ${networksMax} networks, by their ids`);
    if (lifetimeMs > lifetimeMsMax) fail("invalid_argument", "a key lasts a hundred years at most; or give it no end");
    const nowMs = this.#world.clock.wallMs();
    return {
      ...{ name, owner, scopes: [...new Set(wanted as Scope[])], requestsPerMinute, createdWallMs: nowMs },
      ...(networks.length > 0 && { networks: [...networks] }),
      ...(ownOnly && { ownOnly }),
      ...(lifetimeMs > 0 && { expiresWallMs: nowMs + lifetimeMs }),
    };
  }

  async list(): Promise<KeyRecord[]> {
    const items = await Array.fromAsync(listItems<KeyRecord>(this.#store, prefix));
    return items.map(({ record }) => record);
  }

  async delete(id: string): Promise<void> {
    const item = await this.#store.get(prefix + id);
    if (!item) fail("not_found", `there is no key ${id}: see dcnr key list`);
    await this.#store.delete(item.key, item.version);
    this.#forget(id);
  }

  /** Whether the holder of a key was given rights. */
  async isKnown(id: string): Promise<boolean> {
    return (await this.#lookUp(id)) !== undefined;
  }

  #forget(id: string): void {
    this.#cache.delete(id);
    this.#buckets.delete(id);
  }

  /** What the caller's key is good for, or a failure that says what is missing. `authorization` is the header as it came. */
  async require(scope: Scope, authorization: string | undefined, caller: Caller): Promise<Roles> {
    const roles = await this.rolesOf(authorization, caller);
    if (!roles.scopes.some((held) => covers(held, scope)))
      fail("permission_denied", `the key "${roles.name}" of ${roles.owner} lacks the scope ${scope}`);
    const waitMs = roles.requestsPerMinute > 0 ? this.#take(roles.key, roles.requestsPerMinute) : 0;
    if (waitMs > 0)
      throw new TooManyRequests(
        `the key "${roles.name}" allows ${roles.requestsPerMinute} requests a minute: slow down`,
        waitMs,
      );
    return roles;
  }

  /** All that the caller may do. An API key that is shown counts before the key that the connection has proved. */
  async rolesOf(authorization: string | undefined, { id, address }: Caller): Promise<HeldRoles> {
    const secret = authorization?.replace(/^Bearer\s+/i, "");
    const shown = /^dcnr-([0-9a-f]{12})-/.exec(secret ?? "")?.[1];
    if (shown !== undefined) {
      const record = await this.#lookUp(shown);
      if (!record || record.hash === undefined || record.hash !== sha256(secret as string))
        fail("unauthenticated", "the API key is not known here");
      return this.#held(record);
    }
    const own = id && (await this.#lookUp(id));
    if (own) return this.#held(own);
    if (this.#trustsLoopback && isLoopback(address.replace(/^::ffff:/, ""))) return local;
    if (id !== undefined)
      fail(
        "unauthenticated",
        `your key has no rights here: ask an operator for dcnr key admit ${id}, or show an API key (--api-key KEY)`,
      );
    return fail(
      "unauthenticated",
      "this server needs an API key, made with dcnr key create: send Authorization: Bearer KEY, or use --api-key KEY",
    );
  }

  #held(record: KeyRecord): HeldRoles {
    const { id: key, name, networks, ownOnly, requestsPerMinute, expiresWallMs } = record;
    const nowMs = this.#world.clock.wallMs();
    if (expiresWallMs !== undefined && expiresWallMs <= nowMs)
      fail(
        "unauthenticated",
        `the key "${name}" expired ${duration((nowMs - expiresWallMs) / 1_000)} ago: ask an operator for a new one`,
      );
    this.#noteUse(record, nowMs);
    return {
      ...{ key, name, owner: ownerOf(record), scopes: record.scopes, requestsPerMinute },
      ...(networks && { networks }),
      ...(ownOnly && { ownOnly }),
    };
  }

  /** In the background: nobody waits for it, and a store that is away only makes it later. */
  #noteUse(record: KeyRecord, nowMs: number): void {
    if (nowMs - (record.lastUsedWallMs ?? Number.NEGATIVE_INFINITY) < useNotedMs) return;
    const used = { ...record, lastUsedWallMs: nowMs };
    this.#cache.set(record.id, { record: used, readMs: this.#world.clock.monotonicMs() });
    updateItem<KeyRecord>(
      this.#store,
      prefix + record.id,
      // One that was deleted or noted by another orchestrator meanwhile stays as it is.
      (current) =>
        current && nowMs - (current.lastUsedWallMs ?? Number.NEGATIVE_INFINITY) >= useNotedMs
          ? { ...current, lastUsedWallMs: nowMs }
          : undefined,
      this.#world,
    ).catch((error: unknown) =>
      this.#world.log("debug", `the use of key ${record.id} was not noted: ${String(error)}`),
    );
  }

  async #lookUp(id: string): Promise<KeyRecord | undefined> {
    const nowMs = this.#world.clock.monotonicMs();
    const cached = this.#cache.get(id);
    if (cached && nowMs - cached.readMs < cacheMs) return cached.record;
    const record = (await readItem<KeyRecord>(this.#store, prefix + id))?.record;
    this.#cache.set(id, { record, readMs: nowMs });
    return record;
  }

  #take(id: string, perMinute: number): number {
    const bucket = this.#buckets.get(id) ?? new Bucket(perMinute);
    this.#buckets.set(id, bucket);
    return bucket.take(this.#world.clock.monotonicMs());
  }
}

export function ownerOf({ owner, name }: KeyRecord): string {
  return owner ?? name;
}

interface HeldRoles extends Roles {
  readonly name: string;
  readonly requestsPerMinute: number;
}

/** Whoever is on the orchestrator's machine could read its store as well. */
const local: HeldRoles = { key: "", name: "", owner: "", scopes: ["admin"], requestsPerMinute: 0 };
