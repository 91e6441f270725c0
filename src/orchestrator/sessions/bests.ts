// Which states of a session that is checked validated best: of what is final, and of all that the line has passed. What is not final yet may turn out to be
// made up, and then what was best before counts again; so each validation whose state is still there is remembered until it is final.

import type { BestState, SessionRecord, ValidatedState } from "../records/sessions.ts";
import type { VNodeRecords } from "../records/workloads.ts";
import { type Span, statedAt } from "../trust/seams.ts";
import { isKept } from "./garbage.ts";

/** What owners signed about validations in these intervals; a state that was validated at a checkpoint is named by that. */
export function validatedIn(
  session: Pick<SessionRecord, "turn" | "vnodes" | "line" | "final">,
  records: VNodeRecords,
  spans: readonly Span[],
): ValidatedState[] {
  const isStored = (step: number) => session.vnodes.every((id) => records.get(id)?.durable[String(step)] !== undefined);
  return spans
    .filter(({ to }) => to > (session.final ?? 0))
    .flatMap(({ to }) =>
      session.vnodes.flatMap((id) => {
        const { validation } = statedAt(session, records.get(id), to)[0]?.statement ?? {};
        if (validation === undefined) return [];
        const { step, loss } = validation;
        return { step: step >= session.line && isStored(step) ? step : to, loss, to };
      }),
    );
}

/** Once the line or what is final has moved, or the session has gone back. */
export function withBests(session: SessionRecord): SessionRecord {
  const { validated = [], best: _, bestFinal: before, ...rest } = session;
  const { line, final = 0 } = rest;
  const passed = validated.filter(({ to }) => to <= final);
  const open = validated.filter(({ to }) => to > final && to <= line);
  const bestFinal = lowest([...(before ? [before] : []), ...passed]);
  const best = lowest([...(bestFinal ? [bestFinal] : []), ...open]);
  const next = { ...rest, ...(bestFinal ? { bestFinal } : {}), ...(best ? { best } : {}) };
  const kept = open.filter(({ step }) => isKept(next, step));
  return kept.length > 0 ? { ...next, validated: kept } : next;
}

/** The best that may leave the network, as `lineToGive` says it of the newest. */
export function bestToGive(
  { policy, best, bestFinal }: Pick<SessionRecord, "policy" | "best" | "bestFinal">,
  provisional: boolean,
): BestState | undefined {
  return policy.assurance === undefined || provisional ? best : bestFinal;
}

/** Of equals the first. */
function lowest(states: readonly (BestState | ValidatedState)[]): BestState | undefined {
  const best = states.reduce<BestState | undefined>(
    (least, one) => (least && least.loss <= one.loss ? least : one),
    undefined,
  );
  return best && { step: best.step, loss: best.loss };
}
