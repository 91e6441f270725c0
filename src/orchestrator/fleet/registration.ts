// What a PNode's registration must hold, and the record that follows from it. Pure: the registry writes it.

import { isIP } from "node:net";
import { fail } from "../../core/errors.ts";
import type { OrchestratorId, PNodeId } from "../../core/ids.ts";
import { isPublicAddress } from "../../core/internet.ts";
import { patienceMsMax } from "../../core/patience.ts";
import { isLoopback, isUnspecified, parseAddress } from "../../protocol/address.ts";
import type { Register } from "../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { type Caller, protocolMajor, protocolMinor } from "../../protocol/network.ts";
import type { PNodeRecord } from "../records/records.ts";
import { factsOf, limitsOf, plausible, text } from "./claims.ts";
import { afterFailure, historyAtFirst } from "./reliability.ts";

const addressLengthMax = 300;
/** Doubled by the first false alarm. */
const patienceMsFirst = 3_000;

/** Which PNode calls: the holder of the key that its connection has proved, whatever it says of itself. */
export function pnodeOf({ id }: Caller): PNodeId {
  if (id === undefined)
    fail("unauthenticated", "the caller shows no key: PNodes call over connections that prove theirs");
  return id as string as PNodeId;
}

/** Refuses what no record can be made of. */
export function checkRegister(id: PNodeId, register: Register, ownAddress: string): void {
  if (register.protocolMajor !== protocolMajor)
    fail(
      "failed_precondition",
      `PNode ${id} speaks protocol ${register.protocolMajor}.${register.protocolMinor}, this orchestrator needs ` +
        `${protocolMajor}.x (it has ${protocolMajor}.${protocolMinor}): install a matching version`,
    );
  if (register.address.length === 0 || register.address.length > addressLengthMax)
    fail("invalid_argument", `PNode ${id} gave no address that peers can reach`);
  checkReachable(id, parseAddress(register.address, 0).host, parseAddress(ownAddress, 0).host);
}

/** Whoever is placed beside a PNode that cannot be reached waits for ever. */
function checkReachable(id: PNodeId, host: string, ownHost: string): void {
  if (isUnspecified(host))
    fail("invalid_argument", `PNode ${id} says it is at ${host}, where nobody can reach it: give it --advertise`);
  if (isLoopback(host) && !isLoopback(ownHost) && !isUnspecified(ownHost))
    fail(
      "failed_precondition",
      `PNode ${id} is at ${host}, where PNodes of other machines cannot reach it: join at ${ownHost} instead, or give it ` +
        "--listen and --advertise",
    );
}

/** A home network's address is of no use to the rest of the world. */
function hiddenBehind(address: string, peer: string): string[] {
  const { host } = parseAddress(address, 0);
  if (isIP(host) === 0 || isPublicAddress(host) || !isPublicAddress(peer)) return [];
  return [`says it is at ${host} but calls from ${peer}: forward a port to it and give it --advertise`];
}

export interface Whereabouts {
  readonly orchestrator: OrchestratorId;
  readonly orchestratorIncarnation: string;
  readonly attachment: string;
}

/** The record after the registration; what was learned of the PNode before stays. */
export function registered(
  current: PNodeRecord | undefined,
  id: PNodeId,
  register: Register,
  whereabouts: Whereabouts,
  peer: string,
): PNodeRecord {
  const { facts, warnings } = plausible(factsOf(register.capabilities));
  const history = current?.history ?? historyAtFirst;
  // It was never said to be lost, but it is a new process: the old one ended without leaving.
  const crashed =
    current !== undefined &&
    current.incarnation !== register.incarnation &&
    (current.status === "online" || current.status === "leaving");
  // The same process comes back from the dead: it was busy, and next time it is waited for longer.
  const falseAlarm = current?.status === "lost" && current.incarnation === register.incarnation;
  const patienceMs = falseAlarm ? Math.min(patienceMsMax, 2 * (current.patienceMs ?? patienceMsFirst)) : 0;
  return {
    id,
    name: text(register.name || id),
    incarnation: text(register.incarnation),
    life: (current?.life ?? 0) + (current?.incarnation === text(register.incarnation) ? 0 : 1),
    status: current?.status === "quarantined" ? "quarantined" : "online",
    ...whereabouts,
    address: register.address,
    bits: register.bits,
    facts,
    limits: limitsOf(register.limits),
    owner: text(register.owner),
    region: text(register.region),
    provider: text(register.provider),
    pricePerHour: Number.isFinite(register.pricePerHour) ? Math.max(0, register.pricePerHour) : 0,
    trust: current?.trust ?? "untrusted",
    ...(register.closed ? { closed: true } : {}),
    ...(current?.drained ? { drained: true } : {}),
    ...(patienceMs > 0 ? { patienceMs } : {}),
    history: crashed ? afterFailure(history) : history,
    warnings: [...warnings, ...hiddenBehind(register.address, peer)],
    detail: "",
  };
}
