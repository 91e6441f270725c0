// What is done for a training session beside placing its VNodes: the recovery line is moved as they store states, step
// roots are written, and the session ends with its last step or when its time is over.

import type { SessionId, VNodeId } from "../../core/ids.ts";
import { laneOf } from "../../network/lanes.ts";
import type { PlacementPlan, Policy } from "../../scheduler/placement/types.ts";
import { deleteItem, listItems, updateItem } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import type { Budgets } from "../ledger/budgets.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { IntervalRecord } from "../records/checking.ts";
import { readSession } from "../records/fresh.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { StepRecord, StoredState } from "../records/vnodes.ts";
import { isChecked, isLive, type VNodeRecords, vnodeRecordsOf } from "../records/workloads.ts";
import { drawnIn } from "../trust/intervals.ts";
import { type Span, soundUpTo } from "../trust/seams.ts";
import type { TrustCare } from "../trust/trust-care.ts";
import type { Metrics } from "../views/metrics.ts";
import type { Care } from "../workloads/care.ts";
import type { Adoption } from "./adoption.ts";
import { validatedIn, withBests } from "./bests.ts";
import { type Compiled, trainingPlan } from "./compiled.ts";
import { goBack } from "./damage.ts";
import { type Garbage, trimmed } from "./garbage.ts";
import { recoveryLine, stepRoots } from "./line.ts";
import { partsOf, roundNow } from "./rounds/lane-classes.ts";
import type { RoundCare } from "./rounds/round-care.ts";
import { isQuorum } from "./rounds/round-plan.ts";

export interface SessionCareNeeds {
  readonly compiled: Compiled;
  readonly metrics: Metrics;
  readonly garbage: Garbage;
  readonly ledger: Ledger;
  readonly budgets: Budgets;
  readonly adoption: Adoption;
  readonly trust: TrustCare;
  readonly rounds: RoundCare;
}

export class SessionCare implements Care<SessionRecord> {
  readonly #context: Context;
  readonly #needs: SessionCareNeeds;
  readonly #runningSinceMs = new Map<SessionId, number>();

  constructor(context: Context, needs: SessionCareNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  async plan(session: SessionRecord): Promise<PlacementPlan> {
    const { id, identity } = session;
    const parts = partsOf(session);
    return { ...trainingPlan(id, await this.#needs.compiled.planOf(identity), identity), ...(parts && { parts }) };
  }

  classes(session: SessionRecord, records: VNodeRecords): Policy["classes"] {
    return this.#needs.rounds.classes(session, records);
  }

  initialStates({ initialStates = {} }: SessionRecord): Readonly<Record<string, StoredState>> {
    return initialStates;
  }

  async tend({ id }: SessionRecord): Promise<void> {
    await this.advance(id);
    await this.#needs.trust.tend(id);
    const moved = this.#context.mirror.get(key.session(id));
    if (moved !== undefined) await this.#needs.rounds.tend(moved);
    const session = this.#context.mirror.get(key.session(id));
    if (session === undefined) return;
    this.#needs.ledger.request(session);
    if (isLive(session)) await this.#endIfOutOfTime(session);
    if (isLive(session)) await this.#suspendIfOverBudget(session);
  }

  /** In rounds a lane without a machine is late, and then rests, as long as others are enough and its work is not counted on. */
  goesOnWithout(session: SessionRecord, vnodes: readonly VNodeId[]): boolean {
    const told = roundNow(session)?.told;
    if (told === undefined) return false;
    const lacking = new Set(vnodes.map(laneOf));
    if (told.counted !== undefined) return !told.counted.some((lane) => lacking.has(lane));
    const stranded = this.#needs.rounds.stranded(session, told);
    const here = told.lanes.filter(({ lane }) => !lacking.has(lane)).length;
    return isQuorum(here, told.lanes.length - stranded.length);
  }

  settle(session: SessionRecord): Promise<boolean> {
    return this.#needs.adoption.settle(session);
  }

  async ended(session: SessionRecord, records: VNodeRecords, holder: boolean): Promise<void> {
    this.#runningSinceMs.delete(session.id);
    if (holder && isChecked(session)) await this.#needs.trust.ended(session.id);
    if (holder) await this.#needs.ledger.settle(session.id);
    this.#needs.adoption.forget(session.id);
    this.#needs.rounds.forget(session.id);
    if (holder && session.status === "done") await this.#keepLastAndBest(session, records);
  }

  /** Drops the states between, and step hashes that the step roots have made superfluous. */
  async #keepLastAndBest(session: SessionRecord, records: VNodeRecords): Promise<void> {
    for (const record of records.values()) {
      const { dropped } = trimmed(session, record.durable);
      if (dropped.length === 0 && Object.keys(record.stepHashes).length === 0) continue;
      await this.#context.mirror.update(key.vnode(session.id, record.vnode), (current) => {
        if (current === undefined) return undefined;
        const { statements: _, ...rest } = current;
        return { ...rest, durable: trimmed(session, current.durable).kept, stepHashes: {} };
      });
      this.#needs.garbage.add(dropped);
    }
  }

  async erase({ id }: SessionRecord): Promise<void> {
    const { store } = this.#context.mirror;
    this.#runningSinceMs.delete(id);
    const checked = [prefix.intervalsOf(id), prefix.convictionsOf(id)];
    const rounds = [prefix.roundsOf(id), prefix.closingsOf(id)];
    // Somebody may still write what an auditor found: whoever trains by the same settings has the same id, and must not find it.
    for (const own of [prefix.stepsOf(id), prefix.metricsOf(id), ...checked, ...rounds])
      for await (const { key: stored } of listItems(store, own)) await deleteItem(store, stored, this.#context.world);
  }

  /** Moves the recovery line as far as the records allow. */
  async advance(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    const session = mirror.get(key.session(id));
    if (!session || !isLive(session)) return;
    if (recoveryLine(session, vnodeRecordsOf(mirror, session)) === session.line) return;
    if (isChecked(session)) await this.#moveCheckedLine(id);
    else await this.#moveLine(id);
  }

  /** Over intervals alone whose statements fit together; what is drawn is written with the line. */
  async #moveCheckedLine(id: SessionId): Promise<void> {
    const { mirror } = this.#context;
    const { trust, compiled } = this.#needs;
    const fresh = await readSession(this.#context, id);
    if (fresh === undefined || !isLive(fresh.session)) return;
    const { session, records } = fresh;
    const stored = recoveryLine(session, records);
    if (stored < session.line) await goBack(this.#context, id);
    if (stored <= session.line) return;
    const { edges } = await compiled.planOf(session.identity);
    const { intervals, trouble } = soundUpTo(session, records, edges, stored);
    if (trouble !== undefined) await trust.stuck(session, records, trouble);
    const line = intervals.findLast(({ to }) => isStoredAt(session, records, to))?.to;
    if (line === undefined) return;
    const roots = stepRoots(session, records, session.line, line);
    const { final = 0 } = session;
    // States of what is final were lost and are computed again: they have to be what they were.
    const otherwise = session.line < final ? await this.#firstOtherwise(session, intervals, roots) : undefined;
    if (otherwise !== undefined) return void (await trust.deviated(session, records, line, otherwise));
    await this.#writeRoots(session, line, roots);
    const opened: IntervalRecord[] = [];
    for (const span of intervals) {
      if (span.to > line || span.to <= final) continue;
      const root = roots.find(({ step }) => step === span.to)?.root ?? "";
      opened.push(await trust.open(session, records, span, root));
    }
    const found = validatedIn(
      session,
      records,
      intervals.filter(({ to }) => to <= line),
    );
    const ranMs = session.ranMs + this.#takeRunning(id);
    await mirror.update(key.session(id), (current) => {
      if (!current || !isLive(current) || current.line !== session.line || current.turn !== session.turn)
        return undefined;
      const stepRoot = roots.at(-1)?.step === line ? (roots.at(-1)?.root as string) : current.stepRoot;
      const drawn = [...(current.drawn ?? []), ...drawnIn(opened)];
      const settled = this.#needs.ledger.settled(current);
      const validated = [...(current.validated ?? []), ...found];
      return withBests({ ...current, line, lineBefore: current.line, stepRoot, ranMs, settled, drawn, validated });
    });
  }

  /** The first interval below what is final that does not come to what it did; undefined if all do, as far as is known. */
  async #firstOtherwise(
    { id, final = 0, certificate }: SessionRecord,
    intervals: readonly Span[],
    again: StepRecord["roots"],
  ): Promise<Span | undefined> {
    const known: StepRecord[] = [];
    for await (const { record } of listItems<StepRecord>(this.#context.mirror.store, prefix.stepsOf(id)))
      known.push(record);
    const inOrder = known.toSorted((a, b) => (a.turn ?? 0) - (b.turn ?? 0)).flatMap(({ roots }) => roots);
    const before = new Map<number, string>(inOrder.map(({ step, root }) => [step, root]));
    if (certificate !== undefined) before.set(final, certificate.root);
    const now = new Map<number, string>(again.map(({ step, root }) => [step, root]));
    return intervals.find(({ to }) => {
      const [was, is] = [before.get(to), now.get(to)];
      return to <= final && was !== undefined && is !== undefined && was !== is;
    });
  }

  /** The line moves on what the store holds now: the mirror may miss that a state was taken back. */
  async #moveLine(id: SessionId): Promise<void> {
    const { mirror, world, events } = this.#context;
    const fresh = await readSession(this.#context, id);
    if (fresh === undefined || !isLive(fresh.session)) return;
    const { session, records } = fresh;
    const line = recoveryLine(session, records);
    if (line < session.line) await goBack(this.#context, id);
    if (line <= session.line) return;
    const roots = stepRoots(session, records, session.line, line);
    await this.#writeRoots(session, line, roots);
    await this.#needs.rounds.giveStates(session, records, line);
    const best = this.#best(session, line);
    const done = line === session.identity.steps;
    const ranMs = session.ranMs + this.#takeRunning(id);
    const { written } = await mirror.update(key.session(id), (current) => {
      if (!current || !isLive(current) || current.line !== session.line || current.turn !== session.turn)
        return undefined;
      const stepRoot = roots.at(-1)?.step === line ? (roots.at(-1)?.root as string) : current.stepRoot;
      const settled = this.#needs.ledger.settled(current);
      const moved = { ...current, line, lineBefore: current.line, stepRoot, ranMs, settled, ...(best ? { best } : {}) };
      return done ? { ...moved, status: "done" as const, reason: "", endedWallMs: world.clock.wallMs() } : moved;
    });
    if (written && done)
      events.emit("info", "session.done", `session ${id} is done after ${line} steps`, { session: id, step: line });
  }

  async #writeRoots({ id, turn = 0, voided }: SessionRecord, line: number, roots: StepRecord["roots"]): Promise<void> {
    const { mirror, world, events } = this.#context;
    const written = { session: id, line, roots, ...(turn > 0 ? { turn } : {}) };
    const { record } = await updateItem<StepRecord>(
      mirror.store,
      key.step(id, line),
      // One of a turn that was taken back says nothing.
      (current) => (current !== undefined && (current.turn ?? 0) >= (voided?.turn ?? 0) ? undefined : written),
      world,
    );
    const known = new Map(record?.roots.map(({ step, root }) => [step, root]));
    for (const { step, root } of roots) {
      if (known.get(step) === undefined || known.get(step) === root) continue;
      const message = `session ${id}: step ${step} has the root ${known.get(step)} and now ${root}`;
      events.emit("error", "session.disagreement", message, { session: id, step });
    }
  }

  #best(session: SessionRecord, line: number): SessionRecord["best"] {
    const loss = this.#needs.metrics.latest(session.id, "validation_loss", session.line + 1, line);
    if (loss === undefined || (session.best && session.best.loss <= loss)) return session.best;
    return { step: line, loss };
  }

  #takeRunning(id: SessionId): number {
    const nowMs = this.#context.world.clock.monotonicMs();
    const since = this.#runningSinceMs.get(id) ?? nowMs;
    this.#runningSinceMs.set(id, nowMs);
    return nowMs - since;
  }

  /** It can go on from its line once there is more to spend. */
  async #suspendIfOverBudget(session: SessionRecord): Promise<void> {
    const { mirror, events } = this.#context;
    const { id } = session;
    const reason = this.#needs.budgets.exhausted(session);
    if (reason === undefined) return;
    const { written } = await mirror.update(key.session(id), (current) =>
      current && isLive(current) ? { ...current, status: "suspended" as const, reason } : undefined,
    );
    if (written) events.emit("warn", "session.suspended", `session ${id} is suspended: ${reason}`, { session: id });
  }

  async #endIfOutOfTime(session: SessionRecord): Promise<void> {
    const { id, requirements, ranMs, line } = session;
    const { mirror, world, events } = this.#context;
    const limitMs = requirements.maxRuntimeSeconds * 1000;
    const since = this.#runningSinceMs.get(id) ?? world.clock.monotonicMs();
    this.#runningSinceMs.set(id, since);
    if (limitMs === 0 || ranMs + world.clock.monotonicMs() - since < limitMs) return;
    // All pay vests with the end, also that of machines whose results were not what others came to.
    if (isChecked(session) && this.#needs.trust.isFindingOut(id)) return;
    const reason = `its time of ${requirements.maxRuntimeSeconds} s was over after step ${line}`;
    await mirror.update(key.session(id), (current) =>
      current && isLive(current)
        ? { ...current, status: "done" as const, reason, endedWallMs: world.clock.wallMs() }
        : undefined,
    );
    events.emit("info", "session.done", `session ${id} ended: ${reason}`, { session: id });
  }
}

function isStoredAt(session: SessionRecord, records: VNodeRecords, step: number): boolean {
  return session.vnodes.every((id) => records.get(id)?.durable[String(step)] !== undefined);
}
