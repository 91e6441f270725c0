// Who relays in the network, as far as this orchestrator knows: all orchestrators, for calls at least, and PNodes that offer
// it and were reached directly. PNodes are told whenever that changes.

import { shortKeyId } from "../../../core/keys.ts";
import { withKey } from "../../../protocol/routes/address.ts";
import { parseRoute, splitRoutes } from "../../../protocol/routes/routes.ts";
import type { Context } from "../../context.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { key } from "../../records/store-keys.ts";
import type { Presence } from "../orchestrators/presence.ts";
import { directly } from "./callbacks.ts";

export interface RelayPlace {
  /** "host:port#key". */
  readonly address: string;
  readonly name: string;
  readonly tensors: boolean;
}

/** Enough to choose from; a PNode waits at two of them. */
const relaysMax = 64;
const lookMs = 2_000;

export class Relays {
  readonly #context: Context;
  readonly #presence: Presence;
  readonly #tellAll: (relays: readonly RelayPlace[]) => void;
  /** PNodes that relay, few of a large fleet: whoever attaches is told of them. */
  readonly #pnodes = new Map<string, RelayPlace>();
  #told = "";

  constructor(context: Context, presence: Presence, tellAll: (relays: readonly RelayPlace[]) => void) {
    this.#context = context;
    this.#presence = presence;
    this.#tellAll = tellAll;
    context.mirror.on("pnode", (now, before) => this.#note(now, before));
  }

  #note(now: PNodeRecord | undefined, before: PNodeRecord | undefined): void {
    const place = now && placeOf(now);
    if (now && place) this.#pnodes.set(now.id, place);
    else if (before) this.#pnodes.delete(before.id);
  }

  start(): void {
    this.#context.tasks.every("a look at who relays", lookMs, () => void this.look());
  }

  /**
   * Who relays now. If that is something else than everybody was told, all are told: somebody who heard of a moment in between would
   * not hear of its end otherwise.
   */
  look(): readonly RelayPlace[] {
    const relays = this.#list();
    const now = JSON.stringify(relays);
    if (now !== this.#told) {
      this.#told = now;
      this.#tellAll(relays);
    }
    return relays;
  }

  #list(): RelayPlace[] {
    return [...this.#presence.relays(), ...this.#pnodes.values()].slice(0, relaysMax);
  }

  get anyTensors(): boolean {
    return this.#list().some(({ tensors }) => tensors);
  }

  nameOf(relay: string): string | undefined {
    const record = this.#context.mirror.get(key.pnode(relay as PNodeRecord["id"]));
    if (record !== undefined) return `${record.name} (${shortKeyId(relay)})`;
    return this.#presence.relays().some(({ address }) => address.endsWith(`#${relay}`))
      ? "of the orchestrators"
      : undefined;
  }
}

function placeOf({ id, name, routes, status, relay, reached }: PNodeRecord): RelayPlace | undefined {
  if (relay === undefined || status !== "online" || reached !== directly) return undefined;
  const direct = splitRoutes(routes).find((route) => parseRoute(route).kind === "direct");
  return direct === undefined ? undefined : { address: withKey(direct, id), name, tensors: true };
}
