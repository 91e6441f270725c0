// The certificate that TLS wants, made of nothing but a key: self-signed, without names, valid for ever. It proves that
// the other end holds the key and says nothing else; who that is, the key's hash tells.

import { X509Certificate } from "node:crypto";
import type { KeyId } from "../core/ids.ts";
import { type Identity, keyIdOf } from "../core/keys.ts";

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

/** PEM. Equal for equal keys, as Ed25519 signs without chance. */
export function certificateOf(identity: Identity): string {
  const version3 = der(0xa0, Buffer.from("020102", "hex"));
  const serial = Buffer.from("020101", "hex");
  const signed = sequence(version3, serial, ed25519, name, validity, name, identity.publicKey);
  const signature = der(0x03, Buffer.from([0]), identity.sign(signed));
  const lines = sequence(signed, ed25519, signature).toString("base64").replace(/.{64}/g, "$&\n").trimEnd();
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

/** Whose certificate it is; undefined if its key is not of our kind. TLS has checked that the other end holds the key. */
export function holderOf(certificate: X509Certificate | Uint8Array): KeyId | undefined {
  const { publicKey } = certificate instanceof X509Certificate ? certificate : new X509Certificate(certificate);
  if (publicKey.asymmetricKeyType !== "ed25519") return undefined;
  return keyIdOf(publicKey.export({ type: "spki", format: "der" }));
}
