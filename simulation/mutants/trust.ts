// Broken rules of checking, each in a world in which some machines lie (docs/decisions/0021-statements-and-audits.md). Two more, paying twice and paying too
// early, are the ledger's.

import { sha256 } from "../../src/core/hash.ts";
import type { IntervalRecord, StandingRecord } from "../../src/orchestrator/records/checking.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { Tamper } from "../world/network.ts";
import { type Loose, type Mutant, onEvent, rewriting } from "./mutant.ts";

function withoutWithholding({ barred: _, ...standing }: StandingRecord): object {
  return { ...standing, faults: standing.faults.filter(({ kind }) => kind !== "withholding") };
}

function onAudits(interval: IntervalRecord, change: (audit: IntervalRecord["audits"][string]) => object): object {
  const audits = Object.entries(interval.audits).map(([vnode, audit]) => [vnode, change(audit)]);
  return { ...interval, audits: Object.fromEntries(audits) };
}

/** Of each VNode on each PNode, the first life that was told. */
function firstLives(): Tamper {
  const lives = new Map<string, string>();
  return onEvent("heartbeat", (heartbeat) => ({
    ...heartbeat,
    vnodes: (heartbeat["vnodes"] as Loose[]).map((one) => {
      const name = `${one["session"]} ${one["vnode"]} ${one["epoch"]}`;
      const life = lives.get(name) || String(one["life"]);
      lives.set(name, life);
      return { ...one, life };
    }),
  }));
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
  "takes-the-restarted-for-silent": {
    fault: "a sender that has begun again is taken for one that still has what it sent",
    shows: ["trust"],
    byzantine: true,
    behaviour: "feigns",
    tamper: firstLives,
  },
  "silence-is-nobodys-fault": {
    fault: "a machine that withholds what others need keeps its VNodes and its standing",
    shows: ["hang"],
    byzantine: true,
    behaviour: "withholds",
    store: (view) =>
      rewriting(rewriting(view, "standing", withoutWithholding), "interval", (interval: IntervalRecord) =>
        interval.repair === undefined ? interval : { ...interval, repair: { ...interval.repair, lapses: [] } },
      ),
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
