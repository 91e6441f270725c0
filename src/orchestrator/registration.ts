// What a PNode's registration must hold, and the record that follows from it. Pure: the registry writes it.

import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import { type OrchestratorId, type PNodeId, parseId } from "../core/ids.ts";
import type { Register } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import { protocolMajor, protocolMinor } from "../protocol/network.ts";
import { factsOf, limitsOf, plausible, text } from "./claims.ts";
import type { PNodeRecord } from "./records.ts";
import { afterFailure, historyAtFirst } from "./reliability.ts";

/** Shorter ones could be guessed. */
const secretLengthMin = 16;
const addressLengthMax = 300;

/** Refuses what no record can be made of; returns the PNode's id. */
export function checkRegister(register: Register): PNodeId {
  if (register.protocolMajor !== protocolMajor)
    fail(
      "failed_precondition",
      `PNode ${register.pnode} speaks protocol ${register.protocolMajor}.${register.protocolMinor}, this orchestrator needs ` +
        `${protocolMajor}.x (it has ${protocolMajor}.${protocolMinor}): install a matching version`,
    );
  const id = parseId<PNodeId>(register.pnode, "the PNode's id");
  if (register.secret.length < secretLengthMin)
    fail("invalid_argument", `PNode ${id} sent no secret: at least ${secretLengthMin} characters prove its id`);
  if (register.address.length === 0 || register.address.length > addressLengthMax)
    fail("invalid_argument", `PNode ${id} gave no address that peers can reach`);
  return id;
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
): PNodeRecord {
  const secretHash = sha256(register.secret);
  if (current && current.secretHash !== secretHash)
    fail(
      "permission_denied",
      `PNode id ${id} belongs to another machine: its secret differs; remove the id file to get a new id`,
    );
  const { facts, warnings } = plausible(factsOf(register.capabilities));
  const history = current?.history ?? historyAtFirst;
  // It was never said to be lost, but it is a new process: the old one ended without leaving.
  const crashed =
    current !== undefined &&
    current.incarnation !== register.incarnation &&
    (current.status === "online" || current.status === "leaving");
  return {
    id,
    name: text(register.name || id),
    secretHash,
    incarnation: text(register.incarnation),
    status: current?.status === "quarantined" ? "quarantined" : "online",
    ...whereabouts,
    address: register.address,
    facts,
    limits: limitsOf(register.limits),
    owner: text(register.owner),
    region: text(register.region),
    provider: text(register.provider),
    pricePerHour: Number.isFinite(register.pricePerHour) ? Math.max(0, register.pricePerHour) : 0,
    trust: current?.trust ?? "untrusted",
    ...(register.closed ? { closed: true } : {}),
    history: crashed ? afterFailure(history) : history,
    warnings,
    detail: "",
  };
}
