// Records as they are signed and checked. Nothing that came from outside is believed before its sizes are bounded, its
// subject's signature is good, and the network's key has permitted the subject. The same bytes are checked once.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { joinBytes } from "../core/bytes.ts";
import { sha256 } from "../core/hash.ts";
import type { KeyId } from "../core/ids.ts";
import { type Identity, type KeyChecks, keysOf, successionsMax } from "../core/keys.ts";
import {
  type MemberRecord,
  MemberRecordSchema,
  type Permit,
  type SignedRecord,
  SignedRecordSchema,
  MemberRole as WireRole,
} from "../protocol/gen/dcnr/v1/gossip_pb.ts";
import { protocolMajor, protocolMinor } from "../protocol/network.ts";
import type { Facts, Member, MemberId, MemberRole } from "./member.ts";
import { formerToWire, type NetworkKey, shownFromWire } from "./network-key.ts";

/** A record tells who somebody is, not how it feels: whatever is longer than these does not come from this software. */
export const recordLimits = {
  recordBytesMax: 1_024,
  keyBytesMax: 64,
  signatureBytesMax: 64,
  formerMax: successionsMax,
  formerBytesMax: 128,
  idLengthMax: 64,
  nameLengthMax: 64,
  routesMax: 6,
  routeLengthMax: 160,
  numericsMax: 4,
  numericsLengthMax: 64,
  regionLengthMax: 32,
  incarnationLengthMax: 24,
} as const;

/** How long a permit lasts; renewed by orchestrators when half of it is over. */
export const permitSeconds = 7 * 24 * 3_600;

const roleNumbers: Readonly<Record<MemberRole, WireRole>> = {
  pnode: WireRole.PNODE,
  relay: WireRole.RELAY,
  orchestrator: WireRole.ORCHESTRATOR,
};
const roleNames = new Map(Object.entries(roleNumbers).map(([name, number]) => [number, name as MemberRole]));

export interface PermitFacts {
  readonly signature: Uint8Array;
  readonly expiresSeconds: number;
}

/** What is needed to judge records of one network. */
export interface Judge extends KeyChecks {
  readonly network: NetworkKey;
}

/** By an orchestrator, for a PNode that is registered. */
export function permit(network: Identity, id: MemberId, expiresSeconds: number): PermitFacts {
  return { signature: network.sign(permitBytes(network.id, id, expiresSeconds)), expiresSeconds };
}

/** Absent for orchestrators, whose signature is the network's own. */
export function seal(
  self: { readonly id: MemberId; readonly incarnation: string; readonly identity: Identity },
  network: KeyId,
  facts: Facts,
  sequence: number,
  given: { readonly permit?: PermitFacts | undefined; readonly leaving?: boolean },
): Member {
  const { id, incarnation, identity } = self;
  const bounded = boundedFacts(facts);
  const record = create(MemberRecordSchema, {
    ...{ id, sequence, incarnation, protocolMajor, protocolMinor },
    name: bounded.name,
    routes: [...bounded.routes],
    roles: bounded.roles.map((role) => roleNumbers[role]),
    numerics: [...bounded.numerics],
    cores: bounded.cores,
    memoryBytes: BigInt(Math.max(0, Math.round(bounded.memoryBytes))),
    gflops: bounded.gflops,
    loadEighths: Math.round(8 * Math.min(1, Math.max(0, bounded.load))),
    region: bounded.region,
    leaving: given.leaving ?? false,
    ...(given.permit && { permit: { ...given.permit, signature: Uint8Array.from(given.permit.signature) } }),
  });
  const bytes = toBinary(MemberRecordSchema, record);
  const signed = create(SignedRecordSchema, {
    record: bytes,
    publicKey: isFirstOf(network, identity) ? new Uint8Array() : Uint8Array.from(identity.publicKey),
    former: formerToWire(identity.former),
    signature: Uint8Array.from(identity.sign(recordBytes(network, bytes))),
  });
  const permittedUntil = given.permit?.expiresSeconds ?? Number.POSITIVE_INFINITY;
  return memberOf(record, { keys: [identity.id], permittedUntil }, signed);
}

/** The network's first key needs not be told to anybody who can judge. */
function isFirstOf(network: KeyId, { id, former = [] }: Identity): boolean {
  return id === network && former.length === 0;
}

/** The member, or why it is not one: in words for a log. */
export function judge(signed: SignedRecord, { network, verify, idOf }: Judge): Member | string {
  const limits = recordLimits;
  if (signed.record.length > limits.recordBytesMax) return "the record is too long";
  if (signed.publicKey.length > limits.keyBytesMax) return "the key is too long";
  if (signed.signature.length > limits.signatureBytesMax) return "the signature is too long";
  if (signed.former.length > limits.formerMax || signed.former.some(({ length }) => length > limits.formerBytesMax))
    return "its earlier keys are too many";
  const record = parse(signed.record);
  if (record === undefined) return "the record cannot be read";
  const misfit = misfitOf(record);
  if (misfit !== undefined) return misfit;
  const publicKey = signed.publicKey.length === 0 ? network.firstPublicKey : signed.publicKey;
  const shown = shownFromWire(publicKey, signed.former);
  const keys = keysOf(publicKey, shown.former, { verify, idOf });
  if (keys === undefined) return "its earlier keys did not sign for the present one";
  const isNetwork = keys[0] === network.id;
  if (!isNetwork && keys[0] !== record.id) return "it is not signed by its subject";
  if (!isNetwork && record.roles.includes(WireRole.ORCHESTRATOR)) return "only the network's key makes an orchestrator";
  if (isNetwork && !record.roles.includes(WireRole.ORCHESTRATOR))
    return "the network's key speaks for orchestrators alone";
  if (!verify(publicKey, recordBytes(network.id, signed.record), signed.signature)) return "the signature is wrong";
  if (isNetwork && !network.follows(shown)) return "the network's key that has signed it was replaced";
  if (isNetwork) return memberOf(record, { keys, permittedUntil: Number.POSITIVE_INFINITY }, signed);
  const { permit: permitted } = record;
  if (permitted === undefined) return "it has no permit of the network";
  const permittedUntil = permittedUntilOf(record.id, permitted, network);
  if (permittedUntil === undefined) return "its permit is not the network's";
  return memberOf(record, { keys, permittedUntil }, signed);
}

/** In seconds since 1970; undefined if the network has not permitted it. */
export function permittedUntilOf(
  id: MemberId,
  { signature, expiresSeconds }: PermitFacts | Permit,
  network: NetworkKey,
): number | undefined {
  if (signature.length > recordLimits.signatureBytesMax) return undefined;
  const until = network.signedUntil(permitBytes(network.id, id, expiresSeconds), signature);
  return until === undefined ? undefined : Math.min(until, expiresSeconds);
}

export function recordOf(member: Member): MemberRecord {
  return fromBinary(MemberRecordSchema, member.signed.record);
}

/** Nobody chooses its neighbours in the ring cheaply. */
export function placeOf(id: MemberId): number {
  return Number.parseInt(sha256(`place ${id}`).slice(0, 8), 16);
}

function memberOf(
  record: MemberRecord,
  { keys, permittedUntil }: Pick<Member, "keys" | "permittedUntil">,
  signed: SignedRecord,
): Member {
  return {
    id: record.id,
    key: keys[0] as KeyId,
    keys,
    sequence: record.sequence,
    incarnation: record.incarnation,
    name: record.name,
    routes: record.routes,
    roles: record.roles.flatMap((role) => roleNames.get(role) ?? []),
    numerics: record.numerics,
    cores: record.cores,
    memoryBytes: Number(record.memoryBytes),
    gflops: record.gflops,
    load: record.loadEighths / 8,
    region: record.region,
    protocol: { major: record.protocolMajor, minor: record.protocolMinor },
    leaving: record.leaving,
    place: placeOf(record.id),
    permittedUntil,
    signed,
    bytes: signed.record.length + signed.publicKey.length + signed.signature.length + formerBytes(signed) + 8,
  };
}

function formerBytes({ former }: SignedRecord): number {
  return former.reduce((sum, { length }) => sum + length + 2, 0);
}

function parse(bytes: Uint8Array): MemberRecord | undefined {
  try {
    return fromBinary(MemberRecordSchema, bytes);
  } catch {
    return undefined;
  }
}

function misfitOf(record: MemberRecord): string | undefined {
  const limits = recordLimits;
  const isLong = (texts: readonly string[], max: number) => texts.some(({ length }) => length > max);
  if (record.id === "" || record.id.length > limits.idLengthMax) return "its id has no good length";
  if (record.sequence === 0) return "sequences begin at 1";
  if (record.protocolMajor !== protocolMajor) return `it speaks version ${record.protocolMajor} of the protocol`;
  if (isLong([record.name], limits.nameLengthMax)) return "its name is too long";
  if (isLong([record.region], limits.regionLengthMax)) return "its region is too long";
  if (isLong([record.incarnation], limits.incarnationLengthMax)) return "its incarnation is too long";
  if (record.routes.length > limits.routesMax || isLong(record.routes, limits.routeLengthMax))
    return "its routes are too many";
  if (record.numerics.length > limits.numericsMax || isLong(record.numerics, limits.numericsLengthMax))
    return "its numerics classes are too many";
  if (record.roles.length > roleNames.size) return "its roles are too many";
  if (record.loadEighths > 8 || !(record.gflops >= 0)) return "its figures are impossible";
  return undefined;
}

/** What a machine's owner wrote may be longer than what is told. */
function boundedFacts(facts: Facts): Facts {
  const limits = recordLimits;
  const cut = (text: string, max: number) => Array.from(text).slice(0, max).join("").slice(0, max);
  return {
    ...facts,
    name: cut(facts.name, limits.nameLengthMax),
    region: cut(facts.region, limits.regionLengthMax),
    routes: facts.routes.filter(({ length }) => length <= limits.routeLengthMax).slice(0, limits.routesMax),
    numerics: facts.numerics.filter(({ length }) => length <= limits.numericsLengthMax).slice(0, limits.numericsMax),
  };
}

const text = new TextEncoder();

/** Neither can be taken for the other, nor for one of another network. */
function recordBytes(network: KeyId, record: Uint8Array): Uint8Array {
  return joinBytes([text.encode(`dcnr member record\n${network}\n`), record]);
}

function permitBytes(network: KeyId, id: MemberId, expiresSeconds: number): Uint8Array {
  return text.encode(`dcnr member permit\n${network}\n${id}\n${expiresSeconds}`);
}
