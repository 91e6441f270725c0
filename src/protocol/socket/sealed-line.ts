// A line on which both ends have proved their keys and nobody between them can read or change anything: what TLS is between two
// processes of Node, for browsers, which cannot speak TLS inside of what they are connected by. The handshake is SIGMA-I with keys of a
// moment (docs/decisions/0024-calls-over-sockets.md): first who answers shows its identity, then, if it is who was called, the caller.

import { DcnrError, fail } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { publicKeyBytes, signatureBytes, successionStatement, successionsMax } from "../../core/keys.ts";
import type { Line } from "../routes/line.ts";
import { encodeRecord, RecordReader } from "./records.ts";
import {
  authenticate,
  Cipher,
  concat,
  derive,
  isSigned,
  keyIdOf,
  type NewSealing,
  newEphemeral,
  type Sealing,
  sha256,
  tagBytes,
  textBytes,
} from "./seal-keys.ts";
import { frameBytesMax } from "./socket-frames.ts";

/** A sealed line begins with these; TLS, HTTP and plain frames begin with other bytes. */
export const sealByte = 0xdc;
const preface = Uint8Array.of(sealByte, 0x6e, 0x72, 1);

/** Whoever can sign for a key. */
export interface Signer {
  /** SubjectPublicKeyInfo. */
  readonly publicKey: Uint8Array;
  readonly former?: readonly { readonly publicKey: Uint8Array; readonly signature: Uint8Array }[];
  sign(content: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

/** Who holds the other end: all its keys, the present one last. Undefined for a caller that shows none. */
export interface SealHolder {
  readonly id: KeyId;
  readonly keys: readonly KeyId[];
}

const ephemeralBytes = 32;
const macBytes = 32;
const wordBytes = publicKeyBytes + signatureBytes;
const proofBytesMax = publicKeyBytes + successionsMax * wordBytes + signatureBytes + macBytes;
/** A key seals so many records, then the next one does: at most 4 GiB, far below what AES-GCM bears. */
const recordsPerKey = 1 << 14;

type Role = "calls" | "answers";

/** The calling end. `isExpected` judges who answers, before anything is told about oneself. */
export async function sealCalling(
  line: Line,
  signer: Signer | undefined,
  isExpected: (holder: SealHolder) => boolean,
  newSealing: NewSealing = Cipher.of,
): Promise<Line> {
  const reader = new RecordReader(line.incoming[Symbol.asyncIterator]());
  const own = await newEphemeral();
  await line.send(concat(preface, own.publicKey));
  const answer = (await reader.next(ephemeralBytes + proofBytesMax + tagBytes)) ?? leftEarly();
  const other = answer.subarray(0, ephemeralBytes);
  const greeting = await sha256(preface, own.publicKey, other);
  const secret = await own.agree(other);
  const proof = await unproof(secret, greeting, greeting, "answers", answer.subarray(ephemeralBytes));
  if (proof === undefined || !isExpected(proof)) {
    const holds = proof === undefined ? "shows no key" : `holds the key ${proof.keys.at(-1)}`;
    throw new DcnrError("unauthenticated", `who answers is not who should: it ${holds}`);
  }
  const met = await sha256(greeting, answer);
  const last = await proofOf(secret, greeting, met, "calls", signer);
  await line.send(encodeRecord(last));
  return sealed(line, reader, new Chains(secret, await sha256(met, last), newSealing), "calls");
}

/** The answering end. */
export async function sealAnswering(
  line: Line,
  signer: Signer,
  newSealing: NewSealing = Cipher.of,
): Promise<{ line: Line; caller?: SealHolder }> {
  const reader = new RecordReader(line.incoming[Symbol.asyncIterator]());
  const first = (await reader.exactly(preface.byteLength + ephemeralBytes)) ?? leftEarly();
  if (preface.some((byte, at) => first[at] !== byte))
    fail("unimplemented", "the line is sealed by another version: update the older side");
  const other = first.subarray(preface.byteLength);
  const own = await newEphemeral();
  const greeting = await sha256(preface, other, own.publicKey);
  const secret = await own.agree(other);
  const answer = concat(own.publicKey, await proofOf(secret, greeting, greeting, "answers", signer));
  await line.send(encodeRecord(answer));
  const met = await sha256(greeting, answer);
  const last = (await reader.next(proofBytesMax + tagBytes)) ?? leftEarly();
  const caller = await unproof(secret, greeting, met, "calls", last);
  const opened = await sealed(line, reader, new Chains(secret, await sha256(met, last), newSealing), "answers");
  return { line: opened, ...(caller && { caller }) };
}

function leftEarly(): never {
  return fail("unavailable", "the other end left before the line was sealed");
}

const statementOf = (role: Role, transcript: Uint8Array, identity: Uint8Array) =>
  concat(textBytes(`dcnr seal 1 ${role}\n`), transcript, identity);

/** One's identity, signed and authenticated for this very line. Nothing, sealed alike, for whoever shows no key. */
async function proofOf(
  secret: Uint8Array,
  greeting: Uint8Array,
  transcript: Uint8Array,
  role: Role,
  signer: Signer | undefined,
): Promise<Uint8Array> {
  const cipher = await Cipher.of(await derive(secret, greeting, `dcnr seal 1 ${role} proof`));
  if (signer === undefined) return cipher.seal(new Uint8Array(0), transcript);
  const former = (signer.former ?? []).flatMap(({ publicKey, signature }) => [publicKey, signature]);
  const identity = concat(signer.publicKey, ...former);
  const signature = await signer.sign(statementOf(role, transcript, identity));
  const mac = await authenticate(await macSecret(secret, greeting, role), statementOf(role, transcript, identity));
  return cipher.seal(concat(identity, signature, mac), transcript);
}

const macSecret = (secret: Uint8Array, greeting: Uint8Array, role: Role) =>
  derive(secret, greeting, `dcnr seal 1 ${role} mac`);

async function unproof(
  secret: Uint8Array,
  greeting: Uint8Array,
  transcript: Uint8Array,
  role: Role,
  record: Uint8Array,
): Promise<SealHolder | undefined> {
  const cipher = await Cipher.of(await derive(secret, greeting, `dcnr seal 1 ${role} proof`));
  const proof = await cipher.open(record, transcript);
  if (proof.byteLength === 0) return undefined;
  const identityBytes = proof.byteLength - signatureBytes - macBytes;
  if (identityBytes < publicKeyBytes || (identityBytes - publicKeyBytes) % wordBytes !== 0)
    fail("unauthenticated", "the other end shows something that is no key");
  const identity = proof.subarray(0, identityBytes);
  const publicKey = identity.subarray(0, publicKeyBytes);
  const statement = statementOf(role, transcript, identity);
  const mac = await authenticate(await macSecret(secret, greeting, role), statement);
  const signature = proof.subarray(identityBytes, identityBytes + signatureBytes);
  const isBound = isEqual(mac, proof.subarray(identityBytes + signatureBytes));
  if (!isBound || !(await isSigned(publicKey, statement, signature)))
    fail("unauthenticated", "the other end has not proved the key that it shows");
  const keys = await keysOf(publicKey, identity.subarray(publicKeyBytes));
  return { id: keys[0] as KeyId, keys };
}

/** All keys from the first to the present one, each of which must have signed for the next. */
async function keysOf(publicKey: Uint8Array, words: Uint8Array): Promise<readonly KeyId[]> {
  const former = Array.from({ length: words.byteLength / wordBytes }, (_, index) => {
    const word = words.subarray(index * wordBytes, (index + 1) * wordBytes);
    return { publicKey: word.subarray(0, publicKeyBytes), signature: word.subarray(publicKeyBytes) };
  });
  const first = await keyIdOf(former[0]?.publicKey ?? publicKey);
  for (const [index, { publicKey: key, signature }] of former.entries())
    if (!(await isSigned(key, successionStatement(first, former[index + 1]?.publicKey ?? publicKey), signature)))
      fail("unauthenticated", "the other end's key claims to succeed one that has not signed for it");
  return Promise.all([...former.map((key) => keyIdOf(key.publicKey)), keyIdOf(publicKey)]);
}

/** In a time that tells nothing of where they differ. */
function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  let difference = one.byteLength ^ other.byteLength;
  for (let at = 0; at < one.byteLength; at++) difference |= (one[at] ?? 0) ^ (other[at] ?? 0);
  return difference === 0;
}

/** One direction: a chain of keys, each for so many records. */
class Direction {
  #secret: Uint8Array;
  readonly #newSealing: NewSealing;
  #sealing: Promise<Sealing>;
  #left = recordsPerKey;

  constructor(secret: Uint8Array, newSealing: NewSealing) {
    this.#secret = secret;
    this.#newSealing = newSealing;
    this.#sealing = this.#begin();
  }

  /** Of the next record. */
  async next(): Promise<Sealing> {
    if (this.#left-- > 0) return this.#sealing;
    this.#left = recordsPerKey - 1;
    this.#secret = await derive(this.#secret, new Uint8Array(0), "dcnr seal 1 next");
    this.#sealing = this.#begin();
    return this.#sealing;
  }

  async #begin(): Promise<Sealing> {
    return this.#newSealing(await derive(this.#secret, new Uint8Array(0), "dcnr seal 1 key"));
  }
}

/** What the handshake has come to: a chain of keys for each direction. */
class Chains {
  readonly #secret: Uint8Array;
  readonly #transcript: Uint8Array;
  readonly #newSealing: NewSealing;

  constructor(secret: Uint8Array, transcript: Uint8Array, newSealing: NewSealing) {
    this.#secret = secret;
    this.#transcript = transcript;
    this.#newSealing = newSealing;
  }

  async from(role: Role): Promise<Direction> {
    const secret = await derive(this.#secret, this.#transcript, `dcnr seal 1 ${role} data`);
    return new Direction(secret, this.#newSealing);
  }
}

/** Each message is one record. */
async function sealed(line: Line, reader: RecordReader, chains: Chains, role: Role) {
  const outgoing = await chains.from(role);
  const incoming = await chains.from(role === "calls" ? "answers" : "calls");
  async function* opened(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const record = await reader.next(frameBytesMax + tagBytes);
      if (record === undefined) return;
      yield await (await incoming.next()).open(record);
    }
  }
  let sending = Promise.resolve();
  const sealedLine: Line = {
    // In the order of the calls, however long each takes.
    send: (message) => {
      sending = sending.then(async () => line.send(encodeRecord(await (await outgoing.next()).seal(message))));
      sending.catch(() => {});
      return sending;
    },
    incoming: opened(),
    close: () => line.close(),
  };
  return sealedLine;
}
