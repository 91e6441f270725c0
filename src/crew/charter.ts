// The charter of a session: whom the network's key allows to go on with it while no orchestrator is there. It is checked
// by whoever uses it, however it came: from an orchestrator, from a peer, or from disk.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { fail } from "../core/errors.ts";
import { type KeyId, parseId, parseSha256, type SessionId, type Sha256, type VNodeId } from "../core/ids.ts";
import { type Identity, keysOf, type Succession, type Verify } from "../core/keys.ts";
import { wholeOf } from "../core/whole.ts";
import {
  CharterSchema,
  type Charter as WireCharter,
  type Tenure as WireTenure,
} from "../protocol/gen/dcnr/v1/session_peers_pb.ts";
import type { Tenure } from "./tenures.ts";

export interface CharteredVNode {
  readonly vnode: VNodeId;
  readonly tenure: Tenure;
  /** At the charter's line; empty where the state follows from the seed. */
  readonly state: Sha256 | "";
}

export interface CrewMember {
  readonly routes: string;
  /** May take VNodes over; the others keep states. */
  readonly hosts: boolean;
}

export interface Charter {
  readonly session: SessionId;
  /** Of two charters the higher one counts. */
  readonly revision: bigint;
  readonly issuedWallMs: number;
  readonly expiresWallMs: number;
  readonly numericsClass: string;
  readonly crew: ReadonlyMap<string, CrewMember>;
  readonly vnodes: readonly CharteredVNode[];
  readonly line: number;
  readonly turn: number;
  /** PNodes that hold each state beside its owner. */
  readonly keepers: number;
}

/** As it travels: the bytes that were signed, the key, the signature. */
export interface SignedCharter {
  readonly charter: Uint8Array;
  readonly publicKey: Uint8Array;
  readonly signature: Uint8Array;
  /** The network's keys before this one. */
  readonly former: readonly Succession[];
}

export const keepersUsual = 2;
/** Longer, and a network that nobody looks after any more would compute for ever. */
export const charterLifetimeMs = 7 * 24 * 60 * 60_000;
/** Everybody hears of everybody: more would cost more than they help. */
export const crewMax = 64;
const keepersMax = 8;
const vnodesMax = 20_000;
const ownersMax = 16;

/** So that no other message of the network's key can be taken for a charter. */
const purpose = new TextEncoder().encode("dcnr charter 1\n");

export function signCharter(charter: Charter, identity: Identity): SignedCharter {
  const bytes = toBinary(
    CharterSchema,
    create(CharterSchema, {
      session: charter.session,
      revision: charter.revision,
      issuedWallMs: BigInt(Math.round(charter.issuedWallMs)),
      expiresWallMs: BigInt(Math.round(charter.expiresWallMs)),
      numericsClass: charter.numericsClass,
      crew: Array.from(charter.crew, ([pnode, { routes, hosts }]) => ({ pnode, routes, hosts })),
      vnodes: charter.vnodes.map(({ vnode, tenure, state }) => ({ vnode, tenure: tenureToWire(tenure), state })),
      line: BigInt(charter.line),
      turn: BigInt(charter.turn),
      keepers: charter.keepers,
    }),
  );
  const { publicKey, former = [] } = identity;
  return { charter: bytes, publicKey, former, signature: identity.sign(signedBytes(bytes)) };
}

/** Fails with `permission_denied` for what the network's key did not sign, and with `data_loss` for what makes no sense. */
export function readCharter(signed: SignedCharter, networkKey: KeyId, verify: Verify): Charter {
  if (keysOf(signed.publicKey, signed.former)?.[0] !== networkKey)
    fail("permission_denied", "a charter is signed by another key than the network's");
  if (!verify(signed.publicKey, signedBytes(signed.charter), signed.signature))
    fail("permission_denied", "a charter's signature is not the network's");
  const wire = parsed(signed.charter);
  if (wire.crew.length > crewMax || wire.vnodes.length > vnodesMax || wire.keepers > keepersMax)
    fail("data_loss", `a charter of ${wire.crew.length} PNodes and ${wire.vnodes.length} VNodes is not possible`);
  return {
    session: parseId<SessionId>(wire.session, "the charter's session"),
    revision: wire.revision,
    issuedWallMs: Number(wire.issuedWallMs),
    expiresWallMs: Number(wire.expiresWallMs),
    numericsClass: wire.numericsClass,
    crew: new Map(wire.crew.map(({ pnode, routes, hosts }) => [pnode, { routes, hosts }])),
    vnodes: wire.vnodes.map(({ vnode, tenure, state }) => ({
      vnode: vnode as VNodeId,
      tenure: tenureFromWire(tenure ?? fail("data_loss", `a charter does not say who hosts VNode ${vnode}`)),
      state: state === "" ? "" : parseSha256(state, `the state of VNode ${vnode}`),
    })),
    line: Number(wire.line),
    turn: Number(wire.turn),
    keepers: wire.keepers,
  };
}

function parsed(content: Uint8Array): WireCharter {
  try {
    return fromBinary(CharterSchema, content);
  } catch {
    return fail("data_loss", "a charter cannot be read");
  }
}

/** By this machine's clock, which may be wrong by minutes, not by days. */
export function isExpired({ expiresWallMs }: Charter, wallMs: number): boolean {
  return wallMs > expiresWallMs;
}

export function charterToWire({ charter, publicKey, signature, former }: SignedCharter) {
  return { charter, publicKey, signature, former: former.map((key) => ({ ...key })) };
}

export function tenureToWire({ vnode, epoch, count, owners }: Tenure) {
  return { vnode, epoch: BigInt(epoch), count, owners: owners.map((owner) => ({ ...owner })) };
}

export function tenureFromWire({ vnode, epoch, count, owners }: WireTenure): Tenure {
  if (owners.length > ownersMax || (count > 0 && owners.length !== 1))
    fail("invalid_argument", `VNode ${vnode} cannot have ${owners.length} owners`);
  return {
    vnode: vnode as VNodeId,
    epoch: wholeOf(epoch),
    count,
    owners: owners.map(({ pnode, incarnation }) => ({ pnode, incarnation })),
  };
}

function signedBytes(charter: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(purpose.byteLength + charter.byteLength);
  bytes.set(purpose);
  bytes.set(charter, purpose.byteLength);
  return bytes;
}
