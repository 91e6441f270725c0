// How browsers prove a key, which have no certificates to show: they sign a challenge and get a token that stands for the
// key on the calls that follow, for an hour. A challenge is for one orchestrator, one address, one answer and a minute; what
// is signed names the network, so that an answer is of no use anywhere else. The token is good at every orchestrator.

import { createHmac, timingSafeEqual } from "node:crypto";
import { DcnrError, fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { keyIdOf, keysOf, publicKeyBytes, type Succession, verifySignature } from "../../core/keys.ts";
import type { World } from "../../core/world.ts";
import type { Caller } from "../../protocol/network.ts";
import { Shares, shareOf } from "../../protocol/server/shares.ts";
import type { StateStore } from "../../store/records/state-store.ts";
import { createItem } from "../../store/records/update.ts";

export interface Challenge {
  readonly nonce: string;
  readonly expiresWallMs: number;
}

export interface Answer {
  /** SubjectPublicKeyInfo. */
  readonly publicKey: Uint8Array;
  readonly former: readonly Succession[];
  readonly nonce: string;
  readonly signature: Uint8Array;
}

export interface Proof {
  readonly id: KeyId;
  readonly token: string;
  readonly expiresWallMs: number;
}

const challengeMs = 60_000;
const tokenMs = 3_600_000;
/** Answers within a minute; each costs whoever gives it a signature. */
const answeredMax = 10_000;
/** Of those by one address, so that no stranger keeps everybody else from proving a key. */
const answeredPerAddress = 200;
const tokenPrefix = "dcnrproof.";
const tokenPattern = /^Bearer\s+dcnrproof\.([\w-]{1,4000})\.([\w-]{43})$/i;
const nonceLengthMax = 200;

/** What the holder of a key signs. */
export function challengeStatement(networkKey: string, nonce: string, key: string): Uint8Array {
  return Buffer.from(`dcnr challenge 1\n${networkKey}\n${nonce}\n${key}`);
}

export class Proofs {
  readonly #store: StateStore;
  readonly #world: World;
  readonly #incarnation: string;
  readonly #networkKeys: () => readonly (KeyId | undefined)[];
  readonly #own: Uint8Array;
  /** Nonces that were answered, with the time when nobody could any more and whose they were; oldest first. */
  readonly #answered = new Map<string, { readonly untilMs: number; readonly share: string | undefined }>();
  readonly #shares = new Shares(answeredPerAddress, answeredMax);
  #shared: Promise<Uint8Array> | undefined;

  /** `networkKeys`: those by which the network is known; a browser may have heard of any of them. */
  constructor(store: StateStore, world: World, incarnation: string, networkKeys: () => readonly (KeyId | undefined)[]) {
    this.#store = store;
    this.#world = world;
    this.#incarnation = incarnation;
    this.#networkKeys = networkKeys;
    this.#own = world.chance.bytes(32);
  }

  challenge({ address }: Caller): Challenge {
    const expiresWallMs = Math.round(this.#world.clock.wallMs()) + challengeMs;
    const random = Buffer.from(this.#world.chance.bytes(16)).toString("base64url");
    const open = `${this.#incarnation}.${expiresWallMs}.${random}`;
    return { nonce: `${open}.${mac(this.#own, `${open} ${address}`)}`, expiresWallMs };
  }

  async prove({ publicKey, former, nonce, signature }: Answer, { address }: Caller): Promise<Proof> {
    this.#checkNonce(nonce, address);
    const keys = publicKey.byteLength === publicKeyBytes ? keysOf(publicKey, former) : undefined;
    const key = keyIdOf(publicKey);
    const isSigned = this.#networkKeys().some(
      (network) =>
        network !== undefined && verifySignature(publicKey, challengeStatement(network, nonce, key), signature),
    );
    if (keys === undefined || !isSigned)
      fail("unauthenticated", "the signature is not of this key over this challenge of this network");
    const share = shareOf(address);
    if (!this.#shares.take(share)) throw tooMany();
    this.#answered.set(nonce, { untilMs: Number(nonce.split(".")[1]), share });
    const expiresWallMs = Math.round(this.#world.clock.wallMs()) + tokenMs;
    const open = Buffer.from(JSON.stringify({ keys, expiresWallMs })).toString("base64url");
    return { id: keys[0] as KeyId, token: `${tokenPrefix}${open}.${mac(await this.#secret(), open)}`, expiresWallMs };
  }

  #checkNonce(nonce: string, address: string): void {
    const nowMs = this.#world.clock.wallMs();
    for (const [old, { untilMs, share }] of this.#answered) {
      if (untilMs > nowMs) break;
      this.#answered.delete(old);
      this.#shares.give(share);
    }
    if (this.#shares.total >= answeredMax || this.#shares.of(shareOf(address) ?? "") >= answeredPerAddress)
      throw tooMany();
    const [incarnation, until, random, tag] = nonce.length <= nonceLengthMax ? nonce.split(".") : [];
    if (incarnation !== this.#incarnation)
      fail("unauthenticated", "the challenge is not of this orchestrator: ask the one that you answer");
    if (!isMac(tag, mac(this.#own, `${incarnation}.${until}.${random} ${address}`)))
      fail("unauthenticated", "the challenge is not one that was put to you: ask for another");
    if (Number(until) <= nowMs) fail("unauthenticated", "the challenge has expired: ask for another");
    if (this.#answered.has(nonce)) fail("unauthenticated", "the challenge was answered before: ask for another");
  }

  /** The caller with the key that its token stands for; the caller itself if it shows none. */
  async read(caller: Caller, authorization: string | undefined): Promise<Caller> {
    const [, open, tag] = tokenPattern.exec(authorization ?? "") ?? [];
    if (open === undefined) return caller;
    if (!isMac(tag, mac(await this.#secret(), open)))
      fail("unauthenticated", "the proof of your key is not of this network: prove it anew");
    const { keys, expiresWallMs } = JSON.parse(Buffer.from(open, "base64url").toString()) as {
      readonly keys: readonly KeyId[];
      readonly expiresWallMs: number;
    };
    if (expiresWallMs <= this.#world.clock.wallMs())
      fail("unauthenticated", "the proof of your key has expired: prove it anew");
    const id = keys[0] as KeyId;
    if (caller.id !== undefined && caller.id !== id)
      fail("unauthenticated", "the connection proves one key and the token another: show one of them");
    return { ...caller, id, ...(keys.length > 1 && { keys }) };
  }

  /** What all orchestrators of the network know, made by the first that needs it. */
  #secret(): Promise<Uint8Array> {
    this.#shared ??= this.#load().catch((error: unknown) => {
      this.#shared = undefined;
      throw error;
    });
    return this.#shared;
  }

  async #load(): Promise<Uint8Array> {
    const fresh = { secret: Buffer.from(this.#world.chance.bytes(32)).toString("base64") };
    const { record } = await createItem(this.#store, "secret/proofs", fresh, this.#world);
    return Buffer.from(
      record?.secret ?? fail("unavailable", "the store keeps no secret for proofs: try again"),
      "base64",
    );
  }
}

function tooMany(): Error {
  return new DcnrError("resource_exhausted", "too many keys are being proved: try again", { outlook: "passing" });
}

function mac(secret: Uint8Array, text: string): string {
  return createHmac("sha256", secret).update(text).digest("base64url");
}

function isMac(given: string | undefined, expected: string): boolean {
  const [one, other] = [Buffer.from(given ?? ""), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
