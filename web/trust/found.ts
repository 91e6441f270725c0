// What the network tells about its machines and sessions, in the order in which people ask: who was found wrong first. Pure.

import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import type {
  AuditView,
  Fault,
  GetAssuranceResponse,
  MachineStanding,
} from "../../src/protocol/gen/dcnr/v1/trust_pb.ts";

/** The worst first: they are what one comes to look for. */
const levels = ["banned", "quarantined", "newcomer", "known", "trusted"];

export function worstFirst<T extends Pick<MachineStanding, "standing" | "name">>(standings: readonly T[]): T[] {
  return standings.toSorted((a, b) => rank(a.standing) - rank(b.standing) || a.name.localeCompare(b.name));
}

/** One that this page does not know comes first: somebody should look at it. */
function rank(standing: string): number {
  return levels.indexOf(standing);
}

export interface Conviction extends Pick<Fault, "wallMs" | "kind" | "story" | "command"> {
  readonly key: string;
  readonly machine: string;
}

type Accused = Pick<MachineStanding, "pnode" | "name"> & {
  readonly faults: readonly Omit<Conviction, "key" | "machine">[];
};

/** Of all machines, the newest first. */
export function convictions(standings: readonly Accused[]): Conviction[] {
  return standings
    .flatMap(({ pnode, name, faults }) =>
      faults.map(({ wallMs, kind, story, command }, index) => ({
        ...{ key: `${pnode}/${index}`, machine: name || pnode },
        ...{ wallMs, kind, story, command },
      })),
    )
    .sort((a, b) => Number(b.wallMs - a.wallMs));
}

type Recomputed = Pick<GetAssuranceResponse, "byTrusted" | "byStrangers" | "byNobody">;

/** Which share of what is final was computed again, by anybody; undefined while nothing is final. */
export function recomputedShare({ byTrusted, byStrangers, byNobody }: Recomputed): number | undefined {
  const all = Number(byTrusted + byStrangers + byNobody);
  return all === 0 ? undefined : Number(byTrusted + byStrangers) / all;
}

export interface CheckedSession {
  readonly session: Session;
  /** Absent where nothing is checked. */
  readonly assured: GetAssuranceResponse | undefined;
}

export interface OpenAudit
  extends Pick<AuditView, "vnode" | "from" | "to" | "owner" | "status" | "auditors" | "command"> {
  readonly session: string;
}

export function openAudits(checked: readonly CheckedSession[]): OpenAudit[] {
  return checked.flatMap(({ session, assured }) =>
    (assured?.audits ?? []).map((audit) => ({ ...audit, session: session.id })),
  );
}
