// What a PNode's registration must hold, and the record that follows from it. Pure: the registry writes it.

import { isIP } from "node:net";
import { fail } from "../../../core/errors.ts";
import type { OrchestratorId, PNodeId } from "../../../core/ids.ts";
import { patienceMsMax } from "../../../core/patience.ts";
import type { Register } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import { type Caller, protocolMajor, protocolMinor } from "../../../protocol/network.ts";
import { isLoopback, isUnspecified, parseAddress } from "../../../protocol/routes/address.ts";
import { joinRoutes, parseRoute } from "../../../protocol/routes/routes.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { factsOf, limitsOf, plausible, text } from "../believed/claims.ts";
import { afterFailure, historyAtFirst } from "../believed/reliability.ts";
import { directly } from "../reach/callbacks.ts";

const notYet = "it is not called back yet";
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
  checkRoutes(id, register.routes, ownAddress);
}

/** Fails for routes by which nobody can be reached. A browser has none until it waits at a relay. */
export function checkRoutes(id: PNodeId, routes: readonly string[], ownAddress: string): void {
  joinRoutes(routes);
  for (const host of directHosts(routes)) checkReachable(id, host, parseAddress(ownAddress, 0).host);
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

function directHosts(routes: readonly string[]): string[] {
  return routes
    .map(parseRoute)
    .filter(({ kind }) => kind === "direct")
    .map(({ address }) => parseAddress(address).host);
}

export interface Whereabouts {
  readonly orchestrator: OrchestratorId;
  readonly orchestratorIncarnation: string;
  readonly attachment: string;
  /** The last of its lives that its room knows: its record may have been ended, and not its room. */
  readonly lifeBefore: number;
  /** Where it calls from. */
  readonly peer: string;
  readonly nowWallMs: number;
  /** Whether it hosts what no record says. */
  readonly uncounted: boolean;
}

/** Machines that call from one network may well be one person's. This machine's own say nothing. */
export function networkOf(peer: string): Pick<PNodeRecord, "network"> {
  if (isLoopback(peer) || isIP(peer) === 0) return {};
  if (isIP(peer) === 4) return { network: peer.split(".").slice(0, 3).join(".") };
  const [head = "", tail] = peer.split("%")[0]?.split("::") ?? [];
  const words = head === "" ? [] : head.split(":");
  // Zeros may be left out once.
  const zeros = tail === undefined ? [] : ["0", "0", "0"];
  return { network: [...words, ...zeros].slice(0, 3).join(":") };
}

/** The record after the registration; what was learned of the PNode before stays. `answered`: it was called back already. */
export function registered(
  current: PNodeRecord | undefined,
  id: PNodeId,
  register: Register,
  { peer, lifeBefore, nowWallMs, uncounted, ...whereabouts }: Whereabouts,
  answered: boolean,
): PNodeRecord {
  const { facts, warnings } = plausible(factsOf(register.capabilities));
  const history = current?.history ?? historyAtFirst;
  // It was never said to be lost, but it is a new process: the old one ended without leaving.
  const crashed =
    current !== undefined &&
    current.incarnation !== register.incarnation &&
    (current.status === "online" || current.status === "leaving");
  const isSameLife = current?.incarnation === text(register.incarnation);
  // The same process comes back from the dead: it was busy, and next time it is waited for longer.
  const falseAlarm = current?.status === "lost" && current.incarnation === register.incarnation;
  const patienceMs = falseAlarm ? Math.min(patienceMsMax, 2 * (current.patienceMs ?? patienceMsFirst)) : 0;
  return {
    id,
    name: text(register.name || id),
    incarnation: text(register.incarnation),
    life: (current?.life ?? lifeBefore) + (isSameLife ? 0 : 1),
    status: current?.status === "quarantined" ? "quarantined" : "online",
    ...whereabouts,
    routes: joinRoutes(register.routes),
    bits: register.bits,
    answerBits: register.answerBits,
    facts,
    limits: limitsOf(register.limits),
    owner: text(register.owner),
    region: text(register.region),
    provider: text(register.provider),
    pricePerHour: Number.isFinite(register.pricePerHour) ? Math.max(0, register.pricePerHour) : 0,
    trust: current?.trust ?? "untrusted",
    ...(current?.worked ? { worked: true } : {}),
    ...networkOf(peer),
    ...(current?.barred ? { barred: current.barred } : {}),
    ...(current?.excluded ? { excluded: current.excluded } : {}),
    ...(register.examinedMsAgo !== undefined && register.examinedMsAgo >= 0
      ? { examinedWallMs: nowWallMs - register.examinedMsAgo }
      : {}),
    ...(register.closed ? { closed: true } : {}),
    ...(answered
      ? { reached: directly }
      : isSameLife && current.reached
        ? { reached: current.reached }
        : { unreached: notYet }),
    ...(uncounted ? { uncounted } : {}),
    ...(register.relay ? { relay: { bytesPerSecond: Number(register.relay.bytesPerSecond) } } : {}),
    ...(current?.drained ? { drained: true } : {}),
    ...(patienceMs > 0 ? { patienceMs } : {}),
    history: crashed ? afterFailure(history) : history,
    warnings,
    detail: "",
  };
}
