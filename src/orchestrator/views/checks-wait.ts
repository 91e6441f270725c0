// A session whose results have to be checked waits for somebody who may: nothing becomes final meanwhile, and in the end it is not done. Says
// for which of its VNodes nobody is found, and why.

import type { VNodeId } from "../../core/ids.ts";
import { duration } from "../../core/words/duration.ts";
import type { Context } from "../context.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { involvedIn, isUnderWay } from "../trust/asking.ts";
import type { Auditors } from "../trust/auditors.ts";
import { intervalsOf, togetherIn } from "../trust/intervals.ts";
import type { Root } from "./roots.ts";

/** Somebody who is busy has usually become free by then. */
const waitedMsLeast = 20_000;

/** One root for all that nobody can repeat; undefined if everything is under way. */
export function checksWait(context: Context, auditors: Auditors, session: SessionRecord): Root | undefined {
  const { assurance = "none" } = session.policy;
  if (assurance === "none") return undefined;
  const nowWallMs = context.world.clock.wallMs();
  const open = intervalsOf(context, session.id).filter(({ openedWallMs }) => nowWallMs - openedWallMs >= waitedMsLeast);
  const without = open.flatMap((interval) =>
    Object.entries(interval.audits).flatMap(([vnode, audit]) => {
      if (audit.outcome !== undefined || !audit.ready || audit.tasks.some(isUnderWay)) return [];
      const asked = [session, togetherIn(vnode as VNodeId, audit)] as const;
      const except = involvedIn(audit, (sinceWallMs) => Math.abs(nowWallMs - sinceWallMs));
      const trustedOnly = assurance === "proven";
      if (auditors.candidates(...asked, interval.draw, except, trustedOnly).length > 0) return [];
      return [{ vnode, interval, reason: auditors.whyNobody(...asked, except, trustedOnly) }];
    }),
  );
  const [first] = without;
  if (first === undefined) return undefined;
  const { vnode, interval, reason } = first;
  const sinceMs = nowWallMs - interval.openedWallMs;
  const remedy =
    assurance === "proven"
      ? "trust a machine (dcnr trust), or give trusted ones more memory"
      : "let another machine join, or give those that are here more memory";
  const where = `VNode ${vnode}, steps ${interval.from} to ${interval.to}`;
  const others = without.length > 1 ? `, and ${without.length - 1} more with it` : "";
  const sentence = `${where}, has waited to be checked for ${duration(sinceMs / 1000)}${others}: ${reason}`;
  return { kind: "checks", vnode, pnode: "", reason, sinceMs, untilMs: 0, vnodes: 0, remedy, sentence };
}
