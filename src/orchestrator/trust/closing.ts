// What happens to an interval at its end: it becomes final, those who repeated it are paid, and what was kept for it may go; or it was
// wrong, and is kept for a while, so that whoever doubts the conviction can repeat it.

import type { PNodeId, SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { FinalWork } from "../ledger/settle.ts";
import type { IntervalRecord } from "../records/checking.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";
import { withBests } from "../sessions/bests.ts";
import { type Garbage, isKept } from "../sessions/garbage.ts";
import { type FinalStep, finalOf } from "./finality.ts";
import { intervalsOf, togetherIn } from "./intervals.ts";
import type { LockerWatch } from "./locker-watch.ts";
import { blobsOf } from "./repair.ts";
import { withRight } from "./standing.ts";
import type { Standings } from "./standings.ts";

export interface ClosingNeeds {
  readonly garbage: Garbage;
  readonly ledger: Ledger;
  readonly locker: LockerWatch;
  readonly standings: Standings;
}

const convictionsKept = 10;

export class Closing {
  readonly #context: Context;
  readonly #needs: ClosingNeeds;

  constructor(context: Context, needs: ClosingNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  /** Moves what is final as far as it goes. */
  async finish(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    const session = mirror.get(key.session(id));
    if (session === undefined) return;
    const step = finalOf(session, intervalsOf(this.#context, id), (to) => isKept(session, to));
    if (step.settled.length > 0) await this.#moveFinal(session, step);
    // Also those that somebody left behind who moved it and went away.
    const { final = 0 } = mirror.get(key.session(id)) ?? session;
    for (const interval of intervalsOf(this.#context, id))
      if (interval.to <= final && interval.repair === undefined && interval.stuck === undefined)
        await this.#close(interval);
  }

  async #moveFinal(session: SessionRecord, step: FinalStep): Promise<void> {
    const { mirror, world, events } = this.#context;
    const { id } = session;
    const root = step.settled.at(-1)?.root ?? "";
    const isDone = step.final === session.identity.steps;
    const { written } = await mirror.update(key.session(id), (current) => {
      if (!current || !isLive(current) || current.turn !== session.turn || current.final !== session.final)
        return undefined;
      const drawn = (current.drawn ?? []).filter(({ to }) => to > step.final);
      if (!isKept(current, step.final)) return undefined;
      const certificate = { ...step.certificate, root };
      const finished = withBests({ ...current, final: step.final, certificate, drawn });
      return isDone
        ? { ...finished, status: "done" as const, reason: "", endedWallMs: world.clock.wallMs() }
        : finished;
    });
    if (written && isDone)
      events.emit("info", "session.done", `session ${id} is done after ${step.final} steps`, {
        session: id,
        step: step.final,
      });
  }

  async #close(interval: IntervalRecord): Promise<void> {
    await this.#needs.ledger.payAudits(interval.session, this.#auditsOf(interval), interval.to);
    await this.#credit(interval);
    // Somebody may have been found wrong who only checked it.
    await this.#keep(interval);
    await this.#forget(interval);
  }

  /** Whoever repeated an interval and came to what is right has worked as much as its owner. */
  #auditsOf({ session, from, to, audits }: IntervalRecord): FinalWork[] {
    return Object.entries(audits).flatMap(([vnode, { tasks, outcome }]) => {
      const { flops = 0 } = this.#context.mirror.get(key.vnode(session, vnode as VNodeId)) ?? {};
      return tasks
        .filter(({ role, result }) => role === "audit" && result !== undefined && result === outcome?.result)
        .map(({ pnode }): FinalWork => ({ vnode: vnode as VNodeId, from, to, pnode, role: "auditor", flops }));
    });
  }

  /** The session has gone back before it: convicts lose what has not vested, and pay for what others have lost. */
  async undone(interval: IntervalRecord): Promise<void> {
    await this.#punish(interval);
    await this.#keep(interval);
    await this.#forget(interval);
  }

  async #punish({ session, to, turn, repair }: IntervalRecord): Promise<void> {
    if (repair === undefined) return;
    const { convicts = [], losses = [], turn: since } = repair;
    const now = this.#context.mirror.get(key.session(session))?.turn ?? since;
    for (const { pnode, bond } of convicts) {
      const id = `${to}/${turn}/${pnode}`;
      await this.#needs.ledger.convict(session, { id, convict: pnode, losses, since, turn: now }, bond);
    }
  }

  async #credit(interval: IntervalRecord): Promise<void> {
    for (const [pnode, count] of earnedIn(interval))
      await this.#needs.standings.change(pnode, (standing) => withRight(standing, count));
  }

  /** So that whoever doubts it can repeat it (dcnr audit): a few of each session, the newest. */
  async #keep(interval: IntervalRecord): Promise<void> {
    const { mirror } = this.#context;
    const accused = Object.entries(interval.audits).filter(([, audit]) => audit.accused.length > 0);
    const kept = new Set(accused.flatMap(([vnode, audit]) => togetherIn(vnode as VNodeId, audit)));
    const audits = Object.fromEntries(Object.entries(interval.audits).filter(([vnode]) => kept.has(vnode as VNodeId)));
    const { session, to, turn } = interval;
    if (Object.keys(audits).length === 0) return;
    await mirror.update(key.conviction(session, to, turn), (current) =>
      current ? undefined : { ...interval, audits },
    );
    const known = mirror.under(prefix.convictionsOf(session)).sort((a, b) => a.openedWallMs - b.openedWallMs);
    for (const old of known.slice(0, -convictionsKept)) {
      await mirror.remove(key.conviction(session, old.to, old.turn), () => true);
      this.#needs.garbage.add(blobsOf(old));
    }
  }

  async #forget(interval: IntervalRecord): Promise<void> {
    const blobs: Sha256[] = [...blobsOf(interval)];
    for (const { stated } of Object.values(interval.audits)) blobs.push(...this.#needs.locker.empty(stated));
    await this.#context.mirror.remove(
      key.interval(interval.session, interval.to),
      (current) => current.turn === interval.turn,
    );
    this.#needs.garbage.add(blobs);
  }
}

/**
 * Intervals that nobody drew and that became final earn trust too, as those do that were repeated (verdicts.ts). What was drawn and
 * found nobody to repeat it earns none: a machine alone among its own would be known for what no stranger has seen.
 */
export function earnedIn({ owners, audits }: Pick<IntervalRecord, "owners" | "audits">): ReadonlyMap<PNodeId, number> {
  const earned = new Map<PNodeId, number>();
  for (const [vnode, owner] of Object.entries(owners))
    if (audits[vnode] === undefined) earned.set(owner, (earned.get(owner) ?? 0) + 1);
  return earned;
}
