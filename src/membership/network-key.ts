// The network's key as one member knows it: by the key that it was told at first, and by whatever has succeeded that one since.
// What a replaced key has permitted holds for a day more where it was known before; whoever comes later does not take it.

import type { KeyId } from "../core/ids.ts";
import {
  type Identity,
  type KeyChecks,
  keysOf,
  publicKeyBytes,
  type Succession,
  signatureBytes,
} from "../core/keys.ts";

/** A public key, and the words of those before it. */
export type Shown = Pick<Identity, "publicKey" | "former">;

/** Everybody who is there gets a new permit within minutes. */
const graceSeconds = 24 * 3_600;

export class NetworkKey {
  readonly #checks: KeyChecks;
  readonly #nowSeconds: () => number;
  /** The first key's, by which statements name the network. */
  readonly id: KeyId;
  #shown: Shown;
  #keys: readonly KeyId[];
  #formerUntilSeconds = 0;

  private constructor(shown: Shown, keys: readonly KeyId[], checks: KeyChecks, nowSeconds: () => number) {
    this.id = keys[0] as KeyId;
    this.#shown = asOfNow(shown);
    this.#keys = keys;
    this.#checks = checks;
    this.#nowSeconds = nowSeconds;
  }

  /** Undefined unless what is shown is the key that is expected, or an heir of it. */
  static of(
    expected: KeyId | undefined,
    shown: Shown,
    checks: KeyChecks,
    nowSeconds: () => number,
  ): NetworkKey | undefined {
    const keys = keysOf(shown.publicKey, shown.former, checks);
    if (keys === undefined || (expected !== undefined && !keys.includes(expected))) return undefined;
    return new NetworkKey(shown, keys, checks, nowSeconds);
  }

  get shown(): Shown {
    return this.#shown;
  }

  /** The first one first. */
  get keys(): readonly KeyId[] {
    return this.#keys;
  }

  get firstPublicKey(): Uint8Array {
    return this.#shown.former?.[0]?.publicKey ?? this.#shown.publicKey;
  }

  /** Whether that is the newest key that is known, or an heir of it, which is the newest from now on. */
  follows(shown: Shown): boolean {
    const keys = keysOf(shown.publicKey, shown.former, this.#checks);
    const newest = this.#keys.at(-1) as KeyId;
    if (keys === undefined || !keys.includes(newest)) return false;
    if (keys.at(-1) === newest) return true;
    this.#shown = asOfNow(shown);
    this.#keys = keys;
    this.#formerUntilSeconds = this.#nowSeconds() + graceSeconds;
    return true;
  }

  /** Until when, at most, such a signature of the network holds; undefined if it is none. */
  signedUntil(content: Uint8Array, signature: Uint8Array): number | undefined {
    const { publicKey, former = [] } = this.#shown;
    if (this.#checks.verify(publicKey, content, signature)) return Number.POSITIVE_INFINITY;
    if (this.#nowSeconds() > this.#formerUntilSeconds) return undefined;
    const isFormer = former.some((key) => this.#checks.verify(key.publicKey, content, signature));
    return isFormer ? this.#formerUntilSeconds : undefined;
  }
}

/** An orchestrator's identity changes under whoever holds it. */
function asOfNow({ publicKey, former = [] }: Shown): Shown {
  return { publicKey, former };
}

/** As they travel: the earlier key, and its signature. */
export function formerToWire(former: readonly Succession[] = []): Uint8Array<ArrayBuffer>[] {
  return former.map(({ publicKey, signature }) => Uint8Array.from([...publicKey, ...signature]));
}

/** Believes nothing: words of another length fail as signatures do. */
export function shownFromWire(publicKey: Uint8Array, former: readonly Uint8Array[]): Shown {
  const words = former.map((word) => ({
    publicKey: word.subarray(0, publicKeyBytes),
    signature: word.subarray(publicKeyBytes, publicKeyBytes + signatureBytes),
  }));
  return words.length === 0 ? { publicKey } : { publicKey, former: words };
}
