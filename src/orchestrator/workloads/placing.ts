// Gives workloads room, pass by pass: those that ask at the same time are scheduled together, so that two of them never
// count on the same room; then room is claimed, and only then are owners written. Other orchestrators may claim at the
// same time: whoever is refused decides again on what is left.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import { sleep } from "../../core/world.ts";
import { inTurns, Pace } from "../../scheduler/placement/pace.ts";
import type { Decision, Placement, PlacementPlan, Policy, Scheduled } from "../../scheduler/placement/types.ts";
import type { Claim, ClaimGroup } from "../../scheduler/room.ts";
import { type Kept, scheduling } from "../../scheduler/schedule.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import { claimId, type HeldClaim, type Rooms } from "../fleet/capacity/rooms.ts";
import type { WorkloadRecord } from "../records/sessions.ts";
import type { VNodeRecord } from "../records/vnodes.ts";
import type { VNodeRecords } from "../records/workloads.ts";
import { agreeOnNumerics, type ClaimedDecision, policyFor, release, writeOwners } from "./recovery.ts";

/** What asks for room, as it is when its turn comes; undefined if it needs none any more. */
export interface Asking {
  readonly plan: PlacementPlan;
  now(): { readonly workload: WorkloadRecord; readonly records: VNodeRecords } | undefined;
  readonly nextFree: NonNullable<Policy["nextFree"]>;
  /** Where its parts have each a class, those that keep to one. */
  classes?(workload: WorkloadRecord, records: VNodeRecords): Policy["classes"];
  /** Room that is promised to others: it is left to them. */
  readonly kept?: Kept;
  /** Asked once all room is claimed and before anybody owns anything; if it says no, the room is given back. */
  commit?(decisions: readonly Decision[]): Promise<boolean>;
}

interface Waiting extends Asking {
  refusals: number;
  resolve(placement: Placement): void;
  reject(reason: unknown): void;
}

interface Turn {
  readonly waiting: Waiting;
  readonly workload: WorkloadRecord;
  readonly records: VNodeRecords;
  readonly policy: Policy;
}

interface Decided extends Turn {
  readonly placement: Scheduled;
  readonly decisions: readonly (Decision & { readonly claim: string })[];
}

/** Others that are faster this often in a row leave no room that is worth another try right now. */
const refusalsMax = 4;
const retryMsMax = 40;

const nothing: Placement = { decisions: [], unplaced: [], numericsClass: "", slowestMs: 0 };

export class Placing {
  readonly #context: Context;
  readonly #capacity: Capacity;
  readonly #rooms: Rooms;
  #queue: Waiting[] = [];
  #passing = false;

  constructor(context: Context, capacity: Capacity, rooms: Rooms) {
    this.#context = context;
    this.#capacity = capacity;
    this.#rooms = rooms;
  }

  /** Resolves when owners are written, or with what stays without a place. */
  place(asking: Asking): Promise<Placement> {
    return new Promise((resolve, reject) => {
      const { plan, nextFree, kept, commit } = asking;
      const more = { ...(kept && { kept }), ...(commit && { commit }) };
      const classes: Asking["classes"] = (workload, records) => asking.classes?.(workload, records);
      this.#queue.push({ plan, nextFree, classes, ...more, now: () => asking.now(), refusals: 0, resolve, reject });
      this.#start();
    });
  }

  #start(): void {
    if (this.#passing) return;
    this.#passing = true;
    void this.#passes();
  }

  async #passes(): Promise<void> {
    const { timers } = this.#context.world;
    try {
      while (this.#queue.length > 0) {
        // Whatever the same news wakes up is scheduled together.
        await sleep(timers, 0);
        const queue = this.#queue;
        this.#queue = [];
        try {
          await this.#pass(queue);
        } catch (thrown) {
          for (const waiting of queue) waiting.reject(thrown);
        }
      }
    } finally {
      this.#passing = false;
    }
  }

  /** Ends when room is claimed: the next pass sees it. Owners are written after that. */
  async #pass(queue: readonly Waiting[]): Promise<void> {
    const turns = queue.flatMap((waiting) => this.#turn(waiting) ?? []);
    turns.sort((a, b) => byImportance(a.workload, b.workload));
    const waiting = turns.map(({ waiting: { plan, kept }, policy }) => ({ plan, policy, ...(kept && { kept }) }));
    const search = scheduling(this.#capacity.fleet, waiting, new Pace());
    const placements = await inTurns(search, () => sleep(this.#context.world.timers, 0));
    const decided = turns.map((turn) => this.#decided(turn, placements.get(turn.workload.id) as Scheduled));
    const wanted = decided.filter(({ placement }) => placement.release === undefined);
    for (const one of decided) if (one.placement.release) await this.#part(one, one.placement.release);
    // Two orchestrators that claim the same PNodes at the same time may each get some, give them back, and meet again.
    const inOrder = turns.some(({ waiting: { refusals } }) => refusals > 0);
    const grants = await this.#rooms.claim(claimsOf(wanted), inOrder);
    const refused: HeldClaim[] = [];
    for (const one of wanted) {
      const pnodes = new Set(one.decisions.map(({ pnode }) => pnode));
      const got = (pnode: PNodeId) => grants.get(pnode)?.workloads.has(one.workload.id) ?? false;
      if (Array.from(pnodes).every(got)) {
        const life = (pnode: PNodeId) => grants.get(pnode)?.life ?? 0;
        this.#write(
          one,
          one.decisions.map((decision) => ({ ...decision, life: life(decision.pnode) })),
        );
        continue;
      }
      refused.push(...one.decisions.filter(({ pnode }) => got(pnode)));
      this.#again(one);
    }
    await this.#rooms.giveBack(refused);
  }

  #turn(waiting: Waiting): Turn | undefined {
    const now = waiting.now();
    if (!now) {
      waiting.resolve(nothing);
      return undefined;
    }
    const { nextFree } = waiting;
    const classes = waiting.classes?.(now.workload, now.records);
    const policy = policyFor(this.#context, now.workload, now.records, { nextFree, ...(classes && { classes }) });
    return { waiting, ...now, policy };
  }

  #decided(turn: Turn, placement: Scheduled): Decided {
    const known = placement.decisions.filter(({ vnode }) => turn.records.has(vnode));
    const decisions = known.map((one) => ({ ...one, claim: claimId(this.#context) }));
    return { ...turn, placement, decisions };
  }

  #write({ waiting, workload, records, placement }: Decided, decisions: readonly ClaimedDecision[]): void {
    const write = async () => {
      if (decisions.length > 0 && !(await this.#mayWrite(waiting, workload, placement))) {
        await this.#rooms.giveBack(decisions);
        return { ...placement, decisions: [] };
      }
      await writeOwners(this.#context, this.#rooms, workload, records, decisions);
      return placement;
    };
    write().then(waiting.resolve, waiting.reject);
  }

  async #mayWrite({ commit }: Waiting, workload: WorkloadRecord, placement: Placement): Promise<boolean> {
    if (!(await agreeOnNumerics(this.#context, workload, placement.numericsClass))) return false;
    return commit === undefined || (await commit(placement.decisions));
  }

  /** Part of a group has no room beside the rest of it: the rest gives up its place, and all of it gets another. */
  async #part(one: Decided, vnodes: readonly VNodeId[]): Promise<void> {
    const own = vnodes.flatMap((vnode) => {
      const record = one.records.get(vnode);
      return record ? [[vnode, record] as const] : [];
    });
    await release(this.#context, this.#rooms, new Map(own));
    this.#again(one);
  }

  #again({ waiting, placement }: Decided): void {
    const { tasks, world } = this.#context;
    if (++waiting.refusals >= refusalsMax || tasks.stopped) {
      const reason = "others took the room that was free: it is tried again";
      const unplaced = placement.decisions.map(({ vnode, copy }) => ({ vnode, copy, reason }));
      waiting.resolve({ ...placement, decisions: [], unplaced: [...placement.unplaced, ...unplaced] });
      return;
    }
    void sleep(world.timers, world.chance.uniform() * retryMsMax * waiting.refusals).then(() => {
      this.#queue.push(waiting);
      this.#start();
    });
  }
}

/** Whoever is more important, then older, comes first. */
export function byImportance(a: WorkloadRecord, b: WorkloadRecord): number {
  const byPriority = b.requirements.priority - a.requirements.priority;
  return byPriority || a.createdWallMs - b.createdWallMs || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

/** By PNode, in the order of the queue. */
function claimsOf(decided: readonly Decided[]): Map<PNodeId, ClaimGroup[]> {
  const byPNode = new Map<PNodeId, ClaimGroup[]>();
  for (const { workload, records, waiting, decisions } of decided) {
    const memoryOf = new Map(waiting.plan.vnodes.map((vnode) => [vnode.id, vnode.memoryBytes]));
    for (const [pnode, own] of Map.groupBy(decisions, (decision): PNodeId => decision.pnode)) {
      const claims: Record<string, Claim> = {};
      for (const { vnode, claim } of own)
        claims[claim] = claimFor(workload, records.get(vnode) as VNodeRecord, memoryOf.get(vnode) ?? 0);
      const groups = byPNode.get(pnode) ?? [];
      groups.push({ workload: workload.id, claims });
      byPNode.set(pnode, groups);
    }
  }
  return byPNode;
}

export function claimFor({ id, requirements }: WorkloadRecord, record: VNodeRecord, memoryBytes: number): Claim {
  const { vnode, epoch } = record;
  return { session: id, vnode, epoch: epoch + 1, memoryBytes, gpus: requirements.gpus };
}
