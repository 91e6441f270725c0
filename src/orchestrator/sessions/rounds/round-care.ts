// Plans and closes the rounds of sessions that are elastic. What is decided stands in create-only records first; the session's record then
// repeats those that its machines need from its recovery line on, so that whoever tells a line tells them.

import type { SessionId } from "../../../core/ids.ts";
import { inLane, laneOf } from "../../../network/lanes.ts";
import {
  isCommon,
  lanesAt,
  type Round,
  type RoundPlan,
  roundAt,
  roundCount,
  roundOf,
  type ToldRound,
} from "../../../network/rounds.ts";
import type { Policy } from "../../../scheduler/placement/types.ts";
import { createItem, readItem } from "../../../store/records/update.ts";
import type { Context } from "../../context.ts";
import type { Capacity } from "../../fleet/capacity/capacity.ts";
import type { Rooms } from "../../fleet/capacity/rooms.ts";
import type { ClosingRecord, RoundRecord } from "../../records/rounds.ts";
import type { SessionRecord } from "../../records/sessions.ts";
import { key } from "../../records/store-keys.ts";
import type { VNodeRecord } from "../../records/vnodes.ts";
import { isLive, type VNodeRecords, vnodeRecordsOf } from "../../records/workloads.ts";
import { policyFor, release, survivors } from "../../workloads/recovery.ts";
import { type Compiled, trainingPlan } from "../compiled.ts";
import { trimmed } from "../garbage.ts";
import { type ElasticSession, isElastic, roundsOf } from "../line.ts";
import { classesOf, classHere, isMixed, lanesToMove, misplaced, strandedIn } from "./lane-classes.ts";
import { RoundClock } from "./round-clock.ts";
import { closingNow, planRound, waitMsFor } from "./round-plan.ts";

export interface RoundNeeds {
  readonly compiled: Compiled;
  readonly capacity: Pick<Capacity, "fleet">;
  readonly rooms: Rooms;
  /** Looks at the session again. */
  readonly touch: (session: SessionId) => void;
}

export class RoundCare {
  readonly #context: Context;
  readonly #needs: RoundNeeds;
  readonly #clocks = new Map<SessionId, RoundClock>();
  /** Steps in a millisecond, by lane, as they were in the last round. */
  readonly #speeds = new Map<SessionId, ReadonlyMap<number, number>>();

  constructor(context: Context, needs: RoundNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  classes(session: SessionRecord, records: VNodeRecords): Policy["classes"] {
    const known = this.#needs.capacity.fleet.classes(session.identity.numerics);
    return classesOf(session, records, (record) => survivors(this.#context, record), known);
  }

  forget(session: SessionId): void {
    this.#clocks.delete(session);
    this.#speeds.delete(session);
  }

  /** By whoever holds the session's lease. */
  async tend(session: SessionRecord): Promise<void> {
    if (!isElastic(session) || !isLive(session) || session.line >= session.identity.steps) return;
    const records = vnodeRecordsOf(this.#context.mirror, session);
    await this.#release(misplaced(session, records, (record) => survivors(this.#context, record)));
    // Lanes are together until then: all of them are here when the first round is planned.
    const round = roundAt(session.identity, session.line);
    if (round === undefined) return;
    const known = roundsOf(session);
    const plan = known.get(round.index) ?? (await this.#plan(session, records, round.index));
    if (plan === undefined) return;
    if (known.get(round.index)?.counted === undefined) await this.#moveResting(session, records, plan);
    const counted = known.get(round.index)?.counted ?? (await this.#close(session, records, round, plan));
    const isLast = round.index + 1 >= roundCount(session.identity);
    const next =
      counted && !isLast && !known.has(round.index + 1)
        ? await this.#plan(session, records, round.index + 1)
        : undefined;
    const now = { round: plan.round, lanes: plan.lanes, ...(counted && { counted }) };
    await this.#tell(session, [now, ...(next ? [told(next)] : [])]);
    // A fast lane may have learned all of the next one before the line comes to it.
    const following = next ?? known.get(round.index + 1);
    if (following !== undefined) this.#noteReady(session, records, following);
  }

  /** Lanes of a round whose class nobody here computes in. */
  stranded(session: SessionRecord, plan: RoundPlan): readonly number[] {
    return isMixed(session) ? strandedIn(plan, this.#needs.capacity.fleet.classes(session.identity.numerics)) : [];
  }

  async #read<T extends object>(name: string): Promise<T | undefined> {
    return (await readItem<T>(this.#context.mirror.store, name))?.record;
  }

  async #create<T extends object>(name: string, record: T): Promise<T | undefined> {
    await createItem<T>(this.#context.mirror.store, name, record, this.#context.world);
    // Another orchestrator may have been faster: what stands there counts.
    return this.#read<T>(name);
  }

  /** The plan of a round, made if there is none; undefined while no lane is here. */
  async #plan(session: ElasticSession, records: VNodeRecords, number: number): Promise<RoundRecord | undefined> {
    const { id, identity } = session;
    const name = key.round(id, number);
    const known = await this.#read<RoundRecord>(name);
    if (known !== undefined) return known;
    const speeds = this.#speeds.get(id);
    const here = this.#lanesHere(session, records);
    // Those that are better placed elsewhere rest, and change meanwhile.
    const moving = await this.#lanesToMove(session, records, here);
    const lanes = Array.from(here, ([lane, own]) => ({ lane, class: own, speed: speeds?.get(lane) })).filter(
      ({ lane }) => !moving.includes(lane),
    );
    if (lanes.length === 0) return undefined;
    const before = number === 0 ? undefined : await this.#before(id, number - 1);
    if (number > 0 && before === undefined) return undefined;
    const asked = { session: id, identity, round: number, lanes, ...(before && { before }) };
    const plan = await this.#create<RoundRecord>(name, planRound(asked));
    this.#clockOf(id).began(number, this.#nowMs);
    return plan;
  }

  /** Of a mixed session: those that are better placed on machines of another class. */
  async #lanesToMove(
    session: ElasticSession,
    records: VNodeRecords,
    here: ReadonlyMap<number, string>,
  ): Promise<readonly number[]> {
    const { compiled, capacity } = this.#needs;
    if (!isMixed(session) || capacity.fleet.classes(session.identity.numerics).length < 2) return [];
    const plan = trainingPlan(session.id, await compiled.planOf(session.identity), session.identity);
    const policy = policyFor(this.#context, session, records);
    return lanesToMove(session, plan, capacity.fleet, policy, here);
  }

  /** Who rests and is to change gives its machines up: it is placed anew. */
  async #moveResting(session: ElasticSession, records: VNodeRecords, { round, lanes }: RoundPlan): Promise<void> {
    const here = this.#lanesHere(session, records);
    const isResting = (lane: number) => !lanes.some((one) => one.lane === lane);
    if (!isMixed(session) || ![...here.keys()].some(isResting)) return;
    for (const lane of (await this.#lanesToMove(session, records, here)).filter(isResting)) {
      const message = `session ${session.id}: lane ${lane} rests in round ${round} and leaves ${here.get(lane)} for machines of another class, on which all are faster`;
      this.#context.events.emit("info", "session.round", message, { session: session.id });
      await this.#release([...records.values()].filter(({ vnode }) => laneOf(vnode) === lane));
    }
  }

  async #release(vnodes: readonly VNodeRecord[]): Promise<void> {
    if (vnodes.length === 0) return;
    await release(this.#context, this.#needs.rooms, new Map(vnodes.map((record) => [record.vnode, record])));
  }

  async #before(id: SessionId, number: number) {
    const plan = await this.#read<RoundRecord>(key.round(id, number));
    if (plan === undefined) return undefined;
    const plans: RoundRecord[] = [];
    const closings: ClosingRecord[] = [];
    for (let round = plan.collected; round <= number; round++) {
      const [one, closing] = [
        await this.#read<RoundRecord>(key.round(id, round)),
        await this.#read<ClosingRecord>(key.closing(id, round)),
      ];
      if (one) plans.push(one);
      if (closing) closings.push(closing);
    }
    return { plan, plans, closings };
  }

  /** Lanes all of whose VNodes have an owner that is here, with the class in which these compute. */
  #lanesHere(session: SessionRecord, records: VNodeRecords): Map<number, string> {
    const alive = (record: VNodeRecord) => survivors(this.#context, record);
    const gone = new Set([...records.values()].flatMap((one) => (alive(one).length === 0 ? [laneOf(one.vnode)] : [])));
    const all = Array.from({ length: session.identity.lanes ?? 1 }, (_, lane) => lane);
    const classOf = (lane: number) => (isMixed(session) ? classHere(records, lane, alive) : session.numericsClass);
    const here = all.filter((lane) => !gone.has(lane)).map((lane) => [lane, classOf(lane)] as const);
    return new Map(here.flatMap(([lane, own]) => (own === undefined ? [] : [[lane, own] as const])));
  }

  async #close(
    session: ElasticSession,
    records: VNodeRecords,
    round: Round,
    told: RoundPlan,
  ): Promise<readonly number[] | undefined> {
    const { lanes } = told;
    const planned = lanes.map(({ lane }) => lane);
    const ready = this.#noteReady(session, records, told);
    const clock = this.#clockOf(session.id);
    clock.forgetBelow(round.index);
    const nowMs = this.#nowMs;
    const times = clock.times(round.index, nowMs, await this.#usualMs(session.id, round.index));
    const counted = closingNow({ planned, ready, ...times, stranded: this.stranded(session, told).length });
    if (counted === undefined) {
      // Another orchestrator that held the lease before may have closed it, and not told.
      const closed = await this.#read<ClosingRecord>(key.closing(session.id, round.index));
      if (closed !== undefined) return closed.counted;
      if (ready.length > 0) this.#lookAgain(session.id, Math.max(0, waitMsFor(times) - times.readyForMs));
      return undefined;
    }
    const speeds = clock.speeds(round.index, lanes, nowMs);
    if (speeds !== undefined) this.#speeds.set(session.id, speeds);
    const closed = await this.#create<ClosingRecord>(key.closing(session.id, round.index), {
      ...{ session: session.id, round: round.index, counted, tookMs: times.tookMs },
    });
    this.#announce(session, round, planned, closed?.counted ?? planned);
    return closed?.counted;
  }

  get #nowMs(): number {
    return this.#context.world.clock.monotonicMs();
  }

  #clockOf(id: SessionId): RoundClock {
    const clock = this.#clocks.get(id) ?? new RoundClock();
    this.#clocks.set(id, clock);
    return clock;
  }

  /** The lanes that have learned all they are to in a round. */
  #noteReady({ id, identity }: ElasticSession, records: VNodeRecords, { round, lanes }: RoundPlan): number[] {
    const { last } = roundOf(identity, round);
    const ready = lanes.map(({ lane }) => lane).filter((lane) => isStoredIn(records, lane, last));
    this.#clockOf(id).ready(round, ready, this.#nowMs);
    return ready;
  }

  /** How long the first lane took in the round before; asked only where nobody here knows when this one began. */
  async #usualMs(id: SessionId, round: number): Promise<number> {
    if (round === 0 || this.#clockOf(id).knows(round)) return 0;
    return (await this.#read<ClosingRecord>(key.closing(id, round - 1)))?.tookMs ?? 0;
  }

  #lookAgain(id: SessionId, afterMs: number): void {
    this.#context.tasks.after(afterMs + 1, () => this.#needs.touch(id));
  }

  #announce(
    { id }: SessionRecord,
    { index, first }: Round,
    planned: readonly number[],
    counted: readonly number[],
  ): void {
    const late = planned.filter((lane) => !counted.includes(lane));
    if (late.length === 0) return;
    const lanes = late.length === 1 ? `lane ${late[0]}` : `lanes ${late.join(", ")}`;
    const message = `session ${id}: round ${index} closes without ${lanes}; what was learned there from step ${first} on does not count`;
    this.#context.events.emit("warn", "session.round", message, { session: id, step: first });
  }

  /** Repeats them in the session's record, with those that its line and the one before still need. */
  async #tell(session: SessionRecord, rounds: readonly ToldRound[]): Promise<void> {
    const known = new Map((session.rounds ?? []).map((one) => [one.round, one]));
    for (const one of rounds) known.set(one.round, one);
    for (const round of needed(session)) if (!known.has(round)) await this.#recall(session.id, round, known);
    const least = needed(session)[0] ?? 0;
    const all = [...known.values()].filter(({ round }) => round >= least).sort((a, b) => a.round - b.round);
    if (JSON.stringify(all) === JSON.stringify(session.rounds ?? [])) return;
    await this.#context.mirror.update(key.session(session.id), (current) =>
      current && isLive(current) && current.line === session.line && current.turn === session.turn
        ? { ...current, rounds: all }
        : undefined,
    );
  }

  /** A session that went back needs rounds that it had done with. */
  async #recall(id: SessionId, round: number, known: Map<number, ToldRound>): Promise<void> {
    const plan = await this.#read<RoundRecord>(key.round(id, round));
    if (plan !== undefined) known.set(round, told(plan, await this.#read<ClosingRecord>(key.closing(id, round))));
  }

  /** At a round's end those who had no part in it go on from the state of the first who had. */
  async giveStates(session: SessionRecord, records: VNodeRecords, step: number): Promise<void> {
    if (!isElastic(session) || !isCommon(session.identity, step)) return;
    const lanes = lanesAt(session.identity, roundsOf(session), step) ?? [];
    for (const record of records.values()) {
      if (lanes.includes(laneOf(record.vnode))) continue;
      const state = giverOf(records, record, lanes[0] ?? 0)?.durable[String(step)];
      if (state === undefined || record.durable[String(step)]?.hash === state.hash) continue;
      await this.#context.mirror.update(key.vnode(session.id, record.vnode), (current) => {
        if (current === undefined) return undefined;
        const { kept } = trimmed(session, current.durable);
        return { ...current, durable: { ...kept, [String(step)]: state } };
      });
    }
  }
}

function told({ round, lanes }: RoundRecord, closing?: ClosingRecord): ToldRound {
  return { round, lanes, ...(closing && { counted: closing.counted }) };
}

/** Those that the line, and the one before it, are made of. */
function needed({ identity, line, lineBefore }: SessionRecord): number[] {
  const from = roundAt(identity, Math.max(0, Math.min(line, lineBefore) - 1))?.index ?? 0;
  const to = roundAt(identity, line)?.index ?? 0;
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);
}

function isStoredIn(records: VNodeRecords, lane: number, step: number): boolean {
  return [...records.values()].every(
    ({ vnode, durable }) => laneOf(vnode) !== lane || durable[String(step)] !== undefined,
  );
}

function giverOf(records: VNodeRecords, { vnode }: VNodeRecord, lane: number): VNodeRecord | undefined {
  return records.get(inLane(vnode, lane));
}
