// The cryptography of sealed lines, by WebCrypto alone, which browsers and Node both have: X25519, Ed25519, HKDF, HMAC and AES-GCM.

import { DcnrError } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { base32 } from "../../core/keys.ts";

const { subtle } = globalThis.crypto;

/** WebCrypto takes views of plain buffers, which all of ours are. */
type Plain = Uint8Array<ArrayBuffer>;
const plain = (bytes: Uint8Array) => bytes as Plain;

export function textBytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function concat(...pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.byteLength;
  }
  return whole;
}

export async function sha256(...pieces: readonly Uint8Array[]): Promise<Uint8Array> {
  return new Uint8Array(await subtle.digest("SHA-256", plain(concat(...pieces))));
}

/** A key's id, as core/keys.ts has it. */
export async function keyIdOf(publicKey: Uint8Array): Promise<KeyId> {
  return base32(await sha256(publicKey)) as KeyId;
}

export interface Ephemeral {
  /** 32 bytes. */
  readonly publicKey: Uint8Array;
  agree(other: Uint8Array): Promise<Uint8Array>;
}

export async function newEphemeral(): Promise<Ephemeral> {
  const pair = (await subtle.generateKey({ name: "X25519" }, false, ["deriveBits"])) as CryptoKeyPair;
  return {
    publicKey: new Uint8Array(await subtle.exportKey("raw", pair.publicKey)),
    agree: async (other) => {
      try {
        const key = await subtle.importKey("raw", plain(other), { name: "X25519" }, false, []);
        // Fails for points of small order, with which an attacker would choose the secret.
        return new Uint8Array(await subtle.deriveBits({ name: "X25519", public: key }, pair.privateKey, 256));
      } catch (error) {
        throw new DcnrError("unauthenticated", "the other end's key for this line is none", { cause: error });
      }
    },
  };
}

/** `publicKey` as SubjectPublicKeyInfo; false also for keys that cannot be read. */
export async function isSigned(publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array): Promise<boolean> {
  try {
    const key = await subtle.importKey("spki", plain(publicKey), { name: "Ed25519" }, false, ["verify"]);
    return await subtle.verify({ name: "Ed25519" }, key, plain(signature), plain(content));
  } catch {
    return false;
  }
}

/** HKDF with SHA-256. */
export async function derive(secret: Uint8Array, salt: Uint8Array, label: string): Promise<Uint8Array> {
  const key = await subtle.importKey("raw", plain(secret), "HKDF", false, ["deriveBits"]);
  const how = { name: "HKDF", hash: "SHA-256", salt: plain(salt), info: plain(textBytes(label)) };
  return new Uint8Array(await subtle.deriveBits(how, key, 256));
}

export async function authenticate(secret: Uint8Array, content: Uint8Array): Promise<Uint8Array> {
  const key = await subtle.importKey("raw", plain(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", key, plain(content)));
}

/** Records of one direction under one key: their numbers are their nonces, so none can be changed, moved or repeated. */
export class Cipher {
  readonly #key: CryptoKey;
  #number = 0;

  private constructor(key: CryptoKey) {
    this.#key = key;
  }

  static async of(secret: Uint8Array): Promise<Cipher> {
    return new Cipher(await subtle.importKey("raw", plain(secret), "AES-GCM", false, ["encrypt", "decrypt"]));
  }

  /** The next record; its number is taken when this is called, so calls may overlap. */
  async seal(content: Uint8Array, bound: Uint8Array = new Uint8Array(0)): Promise<Uint8Array> {
    const how = { name: "AES-GCM", iv: this.#nonce(), additionalData: plain(bound) };
    return new Uint8Array(await subtle.encrypt(how, this.#key, plain(content)));
  }

  async open(record: Uint8Array, bound: Uint8Array = new Uint8Array(0)): Promise<Uint8Array> {
    const how = { name: "AES-GCM", iv: this.#nonce(), additionalData: plain(bound) };
    try {
      return new Uint8Array(await subtle.decrypt(how, this.#key, plain(record)));
    } catch (error) {
      throw new DcnrError("unavailable", "what came was changed on its way: the line ends", { cause: error });
    }
  }

  #nonce(): Plain {
    const nonce = new Uint8Array(12);
    new DataView(nonce.buffer).setBigUint64(4, BigInt(this.#number++));
    return nonce;
  }
}

/** Bytes that AES-GCM adds to a record. */
export const tagBytes = 16;
