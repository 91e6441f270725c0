// Broken rules of checking, each in a world in which some machines lie (docs/decisions/0021-statements-and-audits.md). Two more, paying twice and paying too
// early, are the ledger's.

import { sha256 } from "../../src/core/hash.ts";
import type { IntervalRecord, StandingRecord } from "../../src/orchestrator/records/checking.ts";
import type { PNodeRecord } from "../../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import type { StateStore } from "../../src/store/records/state-store.ts";
import type { Records } from "../checks/records.ts";
import { both, type Loose, type Mutant, onCall, onEvent, rewriting } from "./mutant.ts";

function onAudits(interval: IntervalRecord, change: (audit: IntervalRecord["audits"][string]) => object): object {
  const audits = Object.entries(interval.audits).map(([vnode, audit]) => [vnode, change(audit)]);
  return { ...interval, audits: Object.fromEntries(audits) };
}

const undrawn = (message: Loose): Loose => ({ ...message, drawn: [] });

/** Lines as orchestrators push them, and as they answer who asks. */
const untoldLines = both(onEvent("session", undrawn), onCall(PNodeService.method.resolve, "output", undrawn));

const untoldWork = onEvent("assignments", (message) => ({
  ...message,
  assignments: (message["assignments"] as { work: { case?: string; value?: Loose } }[]).map((one) =>
    one.work.case === "learning" && one.work.value
      ? { ...one, work: { case: "learning", value: undrawn(one.work.value) } }
      : one,
  ),
}));

/** Of each owner, the life in which it last stated something, whatever it tells. */
function livesAsStated(view: StateStore): StateStore {
  const lives = new Map<string, string>();
  return rewriting(view, "vnode", (record: VNodeRecord) => {
    const stated = Object.values(record.statements ?? {}).flat();
    for (const { pnode, statement } of stated) lives.set(`${record.session} ${record.vnode} ${pnode}`, statement.life);
    const members = record.members.map((member) => {
      const life = lives.get(`${record.session} ${record.vnode} ${member.pnode}`);
      return member.told === undefined || life === undefined ? member : { ...member, told: { ...member.told, life } };
    });
    return { ...record, members };
  });
}

/** The roots of its edges as the VNodes at their other ends have stated them. */
function asOthersState(records: Records, record: VNodeRecord): VNodeRecord {
  const others = records.under<VNodeRecord>(`vnode/${record.session}/`).filter(({ vnode }) => vnode !== record.vnode);
  const rootElsewhere = (to: string, turn: number, edge: string) =>
    others
      .flatMap(({ statements = {} }) => statements[to] ?? [])
      .filter((one) => one.turn === turn)
      .map(({ statement }) => statement.edges[edge])
      .find((root) => root !== undefined);
  const statements = Object.entries(record.statements ?? {}).map(([to, all]) => [
    to,
    all.map((one) => ({
      ...one,
      statement: {
        ...one.statement,
        edges: Object.fromEntries(
          Object.entries(one.statement.edges).map(([edge, root]) => [edge, rootElsewhere(to, one.turn, edge) ?? root]),
        ),
      },
    })),
  ]);
  return record.statements === undefined ? record : { ...record, statements: Object.fromEntries(statements) };
}

export const trustMutants: Readonly<Record<string, Mutant>> = {
  "draws-before-it-is-stated": {
    fault: "who is checked is drawn without looking at what was stated",
    shows: ["trust"],
    byzantine: true,
    store: (view) =>
      rewriting(view, "interval", (interval: IntervalRecord) => ({ ...interval, draw: sha256(interval.session) })),
  },
  "tells-auditors-the-result": {
    fault: "an auditor is told what its audit should come to",
    shows: ["trust"],
    byzantine: true,
    store: (view) =>
      rewriting(view, "interval", (interval: IntervalRecord) =>
        onAudits(interval, (audit) => ({
          ...audit,
          tasks: audit.tasks.map((task) => ({ ...task, against: audit.stated[0]?.statement.after ?? "" })),
        })),
      ),
  },
  "checks-ever-more-rarely": {
    fault: "the share of intervals that are checked falls to nothing",
    shows: ["trust", "divergence"],
    byzantine: true,
    store: (view) =>
      rewriting(view, "interval", (interval: IntervalRecord) =>
        interval.stuck === undefined ? { ...interval, audits: {} } : interval,
      ),
  },
  "collects-what-is-drawn": {
    fault: "senders are not told what is drawn, and let go of what it takes to check it",
    shows: ["trust"],
    byzantine: true,
    behaviour: "otherClass",
    tamper: () => both(both(untoldLines, onCall(PNodeService.method.recordDurable, "output", undrawn)), untoldWork),
  },
  "slashes-at-first-sight": {
    fault: "whoever was wrong is called a liar, whether it errs, rounds otherwise or lies",
    shows: ["trust"],
    byzantine: true,
    behaviour: "otherClass",
    store: (view) =>
      rewriting(view, "standing", (standing: StandingRecord) => ({
        ...standing,
        faults: standing.faults.map((fault) => ({ ...fault, kind: "lie" })),
      })),
  },
  "takes-the-restarted-for-silent": {
    fault: "a sender that has begun again is taken for one that still has what it sent",
    shows: ["trust"],
    byzantine: true,
    behaviour: "feigns",
    store: livesAsStated,
  },
  "silence-is-nobodys-fault": {
    fault: "nobody hears which life a VNode lives, so a machine that withholds what others need is not blamed for it",
    shows: ["trust"],
    byzantine: true,
    behaviour: "withholds",
    tamper: () =>
      onEvent("heartbeat", (heartbeat) => ({
        ...heartbeat,
        vnodes: (heartbeat["vnodes"] as Loose[]).map((one) => ({ ...one, life: "" })),
      })),
  },
  "counts-every-key-as-somebody": {
    fault:
      "machines of one owner are taken for strangers to each other, so that whoever brings many gets most of a session",
    shows: ["trust"],
    byzantine: true,
    behaviour: "sybil",
    store: (view) => rewriting(view, "pnode", (record: PNodeRecord) => ({ ...record, owner: record.id })),
  },
  "one-stranger-is-enough": {
    fault: "an interval that two strangers should repeat is settled when one of them has",
    shows: ["trust"],
    byzantine: true,
    store: (view) =>
      rewriting(view, "session", ({ policy: { strangers: _, ...policy }, ...session }: SessionRecord) => ({
        ...session,
        policy,
      })),
  },
  "compares-no-seams": {
    fault:
      "whatever one end of an edge states is written down for the other end too, so that the line passes every seam",
    shows: ["trust"],
    byzantine: true,
    behaviour: "seams",
    store: (view, records) => rewriting(view, "vnode", (record: VNodeRecord) => asOthersState(records, record)),
  },
  "convicts-and-leaves-it-so": {
    fault: "whoever was wrong is found and named, and what it computed stays",
    shows: ["divergence"],
    byzantine: true,
    behaviour: "sybil",
    store: (view) =>
      rewriting(view, "interval", ({ repair: _, ...interval }: IntervalRecord) =>
        onAudits(interval, (audit) =>
          audit.outcome?.kind === "wrong" ? { ...audit, outcome: { ...audit.outcome, kind: "right" } } : audit,
        ),
      ),
  },
  "goes-back-below-final": {
    fault: "a session in which somebody lied begins anew, though much of it is final",
    shows: ["trust"],
    byzantine: true,
    behaviour: "seams",
    assurance: "proven",
    store: (view) =>
      rewriting(view, "interval", (interval: IntervalRecord) =>
        interval.repair === undefined ? interval : { ...interval, repair: { ...interval.repair, line: 0 } },
      ),
  },
  "takes-a-second-try-for-two-faces": {
    fault:
      "a machine that comes to something else when it is asked to repeat its work has said two things of one, and is banned",
    shows: ["trust"],
    byzantine: true,
    behaviour: "badMemory",
    store: (view) =>
      rewriting(view, "standing", (standing: StandingRecord) => ({
        ...standing,
        faults: standing.faults.map((fault) =>
          fault.kind === "hardware" ? { ...fault, kind: "equivocation" } : fault,
        ),
      })),
  },
  "final-over-open-audits": {
    fault: "what the line has passed is final, whatever is being checked",
    shows: ["trust", "divergence"],
    byzantine: true,
    store: (view) =>
      rewriting(view, "session", (session: SessionRecord) =>
        session.final === undefined ? session : { ...session, final: session.line },
      ),
  },
};
