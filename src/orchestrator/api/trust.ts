// TrustService: what auditors found, and what people ask about machines and sessions.

import { fail } from "../../core/errors.ts";
import { type PNodeId, parseId, type VNodeId } from "../../core/ids.ts";
import { TrustService } from "../../protocol/gen/dcnr/v1/trust_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import { statementToWire } from "../../trust/statement.ts";
import type { Context } from "../context.ts";
import { pnodeOf } from "../fleet/attached/registration.ts";
import type { AuditRecord, IntervalRecord, StandingRecord } from "../records/checking.ts";
import { findSession } from "../records/fresh.ts";
import { pnodeName } from "../records/names.ts";
import { key, prefix } from "../records/store-keys.ts";
import { auditCommand, keptWork } from "../trust/kept-work.ts";
import { auditRate, coolOffMs, levelOf, readmitted, reasonOf } from "../trust/standing.ts";
import type { Standings } from "../trust/standings.ts";
import type { TrustCare } from "../trust/trust-care.ts";
import type { Controller } from "../workloads/controller.ts";

export interface TrustApiNeeds {
  readonly context: Context;
  readonly standings: Standings;
  readonly trust: TrustCare;
  readonly controller: Controller;
}

const reasonLengthMax = 200;

export function trustService({ context, standings, trust, controller }: TrustApiNeeds): ServedService {
  const { mirror, events, world } = context;
  return service(TrustService, {
    recordAudit: async (request, { caller }) => {
      await trust.record(pnodeOf(caller), request);
      const session = mirror.get(key.session(request.session));
      if (session) controller.touch(session.id);
      return {};
    },
    listStandings: async ({ pnode }) => {
      const known = new Map(mirror.under(prefix.pnodes).map(({ id }) => [id, standings.of(id)]));
      for (const standing of standings.all()) known.set(standing.pnode, standing);
      const wanted = [...known.values()].filter((one) => pnode === "" || one.pnode === pnode);
      return { standings: wanted.map((standing) => standingView(context, standing)) };
    },
    getAssurance: async ({ session: id }) => {
      const session = await findSession(context, id);
      const { policy, line, final, certificate } = session;
      const isChecked = policy.assurance !== undefined;
      const intervals = mirror.under(prefix.intervalsOf(session.id)).sort((a, b) => a.to - b.to);
      return {
        assurance: policy.assurance ?? "none",
        line: BigInt(line),
        final: BigInt(isChecked ? (final ?? 0) : line),
        finalRoot: certificate?.root ?? "",
        byTrusted: BigInt(certificate?.trusted ?? 0),
        byStrangers: BigInt(certificate?.strangers ?? 0),
        byNobody: BigInt(certificate?.nobody ?? 0),
        audits: intervals.flatMap((interval) => auditViews(context, interval)),
      };
    },
    describeInterval: async ({ session: id, vnode, step }) => {
      const session = await findSession(context, id);
      const kept = [...mirror.under(prefix.intervalsOf(session.id)), ...mirror.under(prefix.convictionsOf(session.id))];
      const { interval, stated } =
        keptWork(kept, { vnode, step: Number(step) }) ??
        fail(
          "not_found",
          `nothing is kept of VNode ${vnode} around step ${step}: only what is being checked can be repeated (dcnr session show ${id} lists it)`,
        );
      return {
        owner: stated.pnode,
        statement: statementToWire(stated.statement),
        turn: BigInt(interval.turn),
        draw: interval.draw,
        lotteryKey: context.lottery.publicKey,
      };
    },
    setTrust: async ({ pnode: text, standing: wanted, reason }, { caller }) => {
      const pnode = parseId<PNodeId>(text, "the PNode's id");
      if (!mirror.get(key.pnode(pnode)) && !mirror.get(key.standing(pnode)))
        fail("not_found", `there is no PNode ${pnode}: see dcnr nodes`);
      const wallMs = world.clock.wallMs();
      const why = reason.slice(0, reasonLengthMax);
      switch (wanted) {
        case "trusted":
          await standings.change(pnode, (standing) => ({ ...readmittedIfBarred(standing, wallMs), trusted: true }));
          break;
        case "known":
          await standings.change(pnode, ({ trusted: _, ...standing }) => readmittedIfBarred(standing, wallMs));
          break;
        case "banned":
          await standings.change(pnode, ({ trusted: _, ...standing }) => ({
            ...standing,
            right: 0,
            barred: { kind: "banned", reason: why || "an operator has banned it", wallMs },
          }));
          break;
        default:
          fail("invalid_argument", `standing "${wanted.slice(0, 40)}" is unknown: choose trusted, known or banned`);
      }
      const name = pnodeName(mirror, pnode);
      const by = `(by ${caller.id ?? "a caller"})`;
      events.emit("info", "admin.trust", `PNode ${name} is ${wanted}${why ? `: ${why}` : ""} ${by}`, { pnode });
      controller.fleetChanged(pnode, true);
      return {};
    },
  });
}

function readmittedIfBarred(standing: StandingRecord, wallMs: number): StandingRecord {
  return standing.barred ? readmitted(standing, wallMs) : standing;
}

function standingView({ mirror }: Context, standing: StandingRecord) {
  const { pnode, right, audited, audits, last, faults, excluded } = standing;
  return {
    ...{ pnode, name: pnodeName(mirror, pnode), standing: levelOf(standing), reason: reasonOf(standing) },
    right: BigInt(right),
    rate: auditRate(standing),
    audited: BigInt(audited),
    auditsDone: BigInt(audits),
    lastAuditWallMs: BigInt(Math.round(last?.wallMs ?? 0)),
    lastAudit: last?.story ?? "",
    faults: faults.map(({ wallMs, kind, story, command }) => ({
      ...{ kind, story, command },
      wallMs: BigInt(Math.round(wallMs)),
    })),
    excludedClasses: [...excluded],
  };
}

function auditViews({ mirror }: Context, interval: IntervalRecord) {
  const { from, to, audits } = interval;
  return Object.entries(audits).map(([vnode, audit]) => ({
    ...{ vnode: vnode as VNodeId, from: BigInt(from), to: BigInt(to) },
    owner: audit.stated.map(({ pnode }) => pnodeName(mirror, pnode)).join(", "),
    status: statusOf(audit),
    auditors: audit.tasks.map(({ pnode, role }) => `${pnodeName(mirror, pnode)} (${role})`),
    command: auditCommand(interval, vnode),
  }));
}

function statusOf({ outcome, ready, tasks, accused }: AuditRecord): string {
  if (outcome === undefined) {
    if (!ready) return "its inputs are being stored";
    return tasks.some(({ result, gaveUp }) => result === undefined && gaveUp === undefined)
      ? "is being repeated"
      : "waits for a machine that may repeat it";
  }
  const stories = accused.map(({ verdict, story }) =>
    verdict === undefined ? "the reason is being found out" : story,
  );
  return [outcome.kind, outcome.reason, ...stories].filter((part) => part).join(": ");
}

/** For `dcnr doctor`: until when a machine that was quarantined has to wait. */
export function coolsUntil({ barred }: StandingRecord): number {
  return barred === undefined ? 0 : barred.wallMs + coolOffMs;
}
