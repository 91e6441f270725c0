// The cryptography of sealed lines: X25519, Ed25519, HKDF, HMAC and AES-GCM by WebCrypto, which browsers and Node both have; records by Node's own
// library where there is one.

import { DcnrError } from "../../core/errors.ts";
import { nodeCrypto } from "../../core/hashing/node-crypto.ts";
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

/** AES-256-GCM under one key: content to record and back. */
export interface Aead {
  seal(nonce: Plain, content: Uint8Array, bound: Uint8Array): Uint8Array | Promise<Uint8Array>;
  open(nonce: Plain, record: Uint8Array, bound: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

export async function webAead(secret: Uint8Array): Promise<Aead> {
  const key = await subtle.importKey("raw", plain(secret), "AES-GCM", false, ["encrypt", "decrypt"]);
  const how = (iv: Plain, bound: Uint8Array) => ({ name: "AES-GCM", iv, additionalData: plain(bound) });
  return {
    seal: async (nonce, content, bound) => new Uint8Array(await subtle.encrypt(how(nonce, bound), key, plain(content))),
    open: async (nonce, record, bound) => new Uint8Array(await subtle.decrypt(how(nonce, bound), key, plain(record))),
  };
}

/** Where there is Node, at once and in this thread: WebCrypto there costs some ten times as much for each record. */
export function nodeAead(
  { createCipheriv, createDecipheriv }: NonNullable<typeof nodeCrypto>,
  secret: Uint8Array,
): Aead {
  return {
    seal: (nonce, content, bound) => {
      const cipher = createCipheriv("aes-256-gcm", secret, nonce).setAAD(bound);
      return concat(cipher.update(content), cipher.final(), cipher.getAuthTag());
    },
    open: (nonce, record, bound) => {
      const end = record.byteLength - tagBytes;
      const cipher = createDecipheriv("aes-256-gcm", secret, nonce, { authTagLength: tagBytes }).setAAD(bound);
      cipher.setAuthTag(record.subarray(end));
      const content = cipher.update(record.subarray(0, end));
      cipher.final();
      return new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
    },
  };
}

/** Seals and opens the records of one direction, one after the other. */
export interface Sealing {
  seal(content: Uint8Array): Uint8Array | Promise<Uint8Array>;
  open(record: Uint8Array): Promise<Uint8Array>;
}

/** Under a key of its own. */
export type NewSealing = (secret: Uint8Array) => Promise<Sealing>;

/** Records of one direction under one key: their numbers are their nonces, so none can be changed, moved or repeated. */
export class Cipher implements Sealing {
  readonly #aead: Aead;
  #number = 0;

  private constructor(aead: Aead) {
    this.#aead = aead;
  }

  static async of(secret: Uint8Array): Promise<Cipher> {
    return new Cipher(nodeCrypto ? nodeAead(nodeCrypto, secret) : await webAead(secret));
  }

  /** The next record; its number is taken when this is called. */
  seal(content: Uint8Array, bound: Uint8Array = none): Uint8Array | Promise<Uint8Array> {
    return this.#aead.seal(this.#nonce(), content, bound);
  }

  async open(record: Uint8Array, bound: Uint8Array = none): Promise<Uint8Array> {
    try {
      return await this.#aead.open(this.#nonce(), record, bound);
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

const none = new Uint8Array(0);

/** Bytes that AES-GCM adds to a record. */
export const tagBytes = 16;
