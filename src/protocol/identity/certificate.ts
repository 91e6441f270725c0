// The certificate that TLS wants, made of nothing but a key: self-signed, without names, valid for ever. It proves that
// the other end holds the key and says nothing else; who that is, the key's hash tells. A key that has succeeded others carries
// their word for it, so that whoever knows one of those needs nobody else to believe it.

import { type KeyObject, X509Certificate } from "node:crypto";
import type { KeyId } from "../../core/ids.ts";
import {
  type Identity,
  keysOf,
  publicKeyBytes,
  type Succession,
  signatureBytes,
  successionsMax,
} from "../../core/keys.ts";

/** DER: a tag, the length, the content. Nothing here reaches 64 KiB. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const length = content.length;
  const long = length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...(length < 128 ? [length] : long)]), content]);
}

const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts);
const text = (tag: number, value: string) => der(tag, Buffer.from(value, "latin1"));
/** 1.3.101.112, as RFC 8410 has it: without parameters. */
const ed25519 = sequence(Buffer.from("06032b6570", "hex"));
const commonName = Buffer.from("0603550403", "hex");
const generalizedTime = 0x18;
const utf8String = 0x0c;

/** Every certificate carries the same name: names mean nothing here. */
const name = sequence(der(0x31, sequence(commonName, text(utf8String, "dcnr"))));
/** RFC 5280 writes "never ends" like this. */
const validity = sequence(text(generalizedTime, "20200101000000Z"), text(generalizedTime, "99991231235959Z"));

/** 2.25 and a number drawn for this: nobody else means anything by it. */
const successionsId = Buffer.from("06146981d7be80d2d7c0b294a5939effbff19ac68f5a", "hex");
const octetString = 0x04;
const wordBytes = publicKeyBytes + signatureBytes;

function extensionsOf(former: readonly Succession[]): Buffer[] {
  if (former.length === 0) return [];
  const words = der(octetString, ...former.flatMap(({ publicKey, signature }) => [publicKey, signature]));
  return [der(0xa3, sequence(sequence(successionsId, words)))];
}

/** Believes nothing: what is found is worth what its signatures say. */
function successionsIn(raw: Buffer): Succession[] {
  const at = raw.indexOf(successionsId) + successionsId.length;
  if (at < successionsId.length || raw[at] !== octetString) return [];
  const [first = 0, ...more] = raw.subarray(at + 1, at + 4);
  const longBytes = first > 0x80 ? first - 0x80 : 0;
  if (longBytes > 2) return [];
  const length = longBytes === 0 ? first : more.slice(0, longBytes).reduce((sum, byte) => sum * 256 + byte, 0);
  const words = raw.subarray(at + 2 + longBytes, at + 2 + longBytes + length);
  if (words.length !== length || length % wordBytes !== 0 || length > successionsMax * wordBytes) return [];
  return Array.from({ length: length / wordBytes }, (_, index) => {
    const word = words.subarray(index * wordBytes, (index + 1) * wordBytes);
    return { publicKey: word.subarray(0, publicKeyBytes), signature: word.subarray(publicKeyBytes) };
  });
}

/** PEM. Equal for equal keys, as Ed25519 signs without chance. */
export function certificateOf(identity: Identity): string {
  const version3 = der(0xa0, Buffer.from("020102", "hex"));
  const serial = Buffer.from("020101", "hex");
  const signed = sequence(
    version3,
    serial,
    ed25519,
    name,
    validity,
    name,
    identity.publicKey,
    ...extensionsOf(identity.former ?? []),
  );
  const signature = der(0x03, Buffer.from([0]), identity.sign(signed));
  const lines = sequence(signed, ed25519, signature).toString("base64").replace(/.{64}/g, "$&\n").trimEnd();
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

/** Who holds the other end of a connection. */
export interface Holder {
  /** Of the first key. */
  readonly id: KeyId;
  /** All keys by which it has been known, the present one last. */
  readonly keys: readonly KeyId[];
}

/**
 * Whose certificate it is; undefined if its key is not of our kind, or claims to succeed one that did not sign for it. TLS
 * has checked that the other end holds the key.
 */
export function holderOf(certificate: X509Certificate | Uint8Array): Holder | undefined {
  const read = certificate instanceof X509Certificate ? certificate : new X509Certificate(certificate);
  const publicKey = publicKeyIn(read);
  if (publicKey?.asymmetricKeyType !== "ed25519") return undefined;
  const keys = keysOf(publicKey.export({ type: "spki", format: "der" }), successionsIn(read.raw));
  return keys && { id: keys[0] as KeyId, keys };
}

/** OpenSSL reads a certificate without its key, which may be damaged or of a kind that nobody knows. */
function publicKeyIn(certificate: X509Certificate): KeyObject | undefined {
  try {
    return certificate.publicKey;
  } catch {
    return undefined;
  }
}
