// The orchestrators a PNode knows: any of them serves any call, so a call goes to the one that last answered and
// moves on to the next when it does not.

import type { KeyId } from "../core/ids.ts";
import { isKeyId } from "../core/keys.ts";
import { retry } from "../core/retry.ts";
import type { World } from "../core/world.ts";
import {
  type Caller,
  isKnownBy,
  type Network,
  type RequestInit,
  type ResponseOf,
  type UnaryMethod,
} from "../protocol/network.ts";
import { parseAddress, withKey } from "../protocol/routes/address.ts";
import type { Timings } from "./options.ts";

/** More would be an attack rather than a network. */
const addressesMax = 256;

export class Orchestrators {
  readonly #network: Network;
  readonly #world: World;
  readonly #timings: Timings;
  /** Given at the start; never forgotten, since learned ones may all be gone after a long sleep. */
  readonly #given: readonly string[];
  /** What they show, all of them the same. Absent in tests without keys. */
  readonly networkKey: KeyId | undefined;
  /** Told by the orchestrator that last registered this PNode, and by other members. */
  #told: readonly string[] = [];
  #gossiped: readonly string[] = [];
  #addresses: string[];
  #index = 0;

  constructor(network: Network, world: World, timings: Timings, addresses: readonly string[]) {
    this.#network = network;
    this.#world = world;
    this.#timings = timings;
    this.#given = addresses;
    this.networkKey = parseAddress(addresses[0] as string, 0).key;
    this.#addresses = [...addresses];
  }

  get current(): string {
    return this.#addresses[this.#index % this.#addresses.length] as string;
  }

  get addresses(): readonly string[] {
    return this.#addresses;
  }

  get count(): number {
    return this.#addresses.length;
  }

  /** Whatever key an address came with, the one that was given at the start has to answer there. */
  learn(addresses: readonly string[]): void {
    const { networkKey } = this;
    const told = addresses.filter((address) => address !== "");
    this.#told = networkKey === undefined ? told : told.map((address) => withKey(address, networkKey));
    this.#put();
  }

  /** Those that members know of, by records that the network's key has signed. */
  gossiped(addresses: readonly string[]): void {
    this.#gossiped = addresses;
    this.#put();
  }

  #put(): void {
    const { current } = this;
    this.#addresses = [...new Set([...this.#given, ...this.#told, ...this.#gossiped])].slice(0, addressesMax);
    this.#index = Math.max(0, this.#addresses.indexOf(current));
  }

  /** Whether a caller is whoever was known by a key. */
  isKnownBy(key: KeyId, caller: Caller): boolean {
    return isKnownBy(this.#network, key, caller);
  }

  /** An orchestrator says which key speaks for a PNode now. */
  tellKey(pnode: string, key: string): void {
    if (isKeyId(pnode) && isKeyId(key)) this.#network.keys?.tell(pnode, key);
  }

  /** Moves on, unless somebody has done so already. */
  failed(address: string): void {
    if (this.current === address) this.#index = (this.#index + 1) % this.#addresses.length;
  }

  /** Calls until somebody answers, the answer is a refusal, or the signal aborts. */
  async call<M extends UnaryMethod>(
    method: M,
    request: RequestInit<M>,
    signal: AbortSignal,
    attemptsMax = Number.POSITIVE_INFINITY,
  ): Promise<ResponseOf<M>> {
    return (await this.ask(method, request, signal, attemptsMax)).answer;
  }

  /** The same, for whoever has to go on with the one that answered. */
  ask<M extends UnaryMethod>(
    method: M,
    request: RequestInit<M>,
    signal: AbortSignal,
    attemptsMax = Number.POSITIVE_INFINITY,
  ): Promise<{ readonly answer: ResponseOf<M>; readonly address: string }> {
    const { callTimeoutMs: timeoutMs, retryMinMs: minMs, retryMaxMs: maxMs } = this.#timings;
    const places = () => this.count;
    return retry({ world: this.#world, minMs, maxMs, attemptsMax, places, signal }, async () => {
      const address = this.current;
      try {
        const answer = await this.#network.call(address, method, request, { timeoutMs, signal });
        return { answer, address };
      } catch (error) {
        this.failed(address);
        throw error;
      }
    });
  }
}
