// The rooms of PNodes in the store: claimed before an owner is written, given back when one goes, swept by anybody when
// whoever claimed died in between. Only compare-and-set decides; what the mirror shows serves to choose.

import type { PNodeId, WorkloadId } from "../../../core/ids.ts";
import { lentMemoryBytes } from "../../../core/lent.ts";
import { type Claim, type ClaimGroup, claimState, granted, type Lent, withoutClaims } from "../../../scheduler/room.ts";
import type { Context } from "../../context.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { key, prefix } from "../../records/store-keys.ts";
import type { Member } from "../../records/vnodes.ts";
import { forEachAtOnce } from "../../tasks.ts";

const writesAtOnce = 64;
/** One after another, more would take longer than a claim may stay open. */
const inOrderMax = 64;
/** Whoever claims writes the owner within a second or so; a claim that stays open for longer is taken away. */
const openMsMax = 10_000;

export type HeldClaim = Pick<Member, "pnode" | "claim">;

export function lentBy({ facts, limits }: Pick<PNodeRecord, "facts" | "limits">): Lent {
  return { memoryBytes: lentMemoryBytes(limits.memoryBytes, facts.memoryBytes), gpus: facts.gpus.length };
}

/** What a PNode granted, and in which of its lives: nobody may become an owner there in another one. */
export interface Grant {
  readonly life: number;
  readonly workloads: ReadonlySet<WorkloadId>;
}

const nothing: Grant = { life: 0, workloads: new Set() };

export class Rooms {
  readonly #context: Context;
  /** Claims that nobody stands on, with the time since when this orchestrator has seen them so. */
  readonly #openSinceMs = new Map<string, number>();

  constructor(context: Context) {
    this.#context = context;
  }

  /**
   * Which workloads got what they want of each PNode; the others got nothing there. `inOrder`: one PNode after another by
   * their names, until the first refusal. That is slower; but of several who do so at the same time, whoever has got furthest in that
   * order meets nobody any more, so one of them gets everything.
   */
  async claim(wanted: ReadonlyMap<PNodeId, readonly ClaimGroup[]>, inOrder = false): Promise<Map<PNodeId, Grant>> {
    const grants = new Map<PNodeId, Grant>();
    const refused = new Set<WorkloadId>();
    const byName = Array.from(wanted).sort(([a], [b]) => (a < b ? -1 : 1));
    const oneByOne = inOrder && byName.length <= inOrderMax;
    await forEachAtOnce(byName, oneByOne ? 1 : writesAtOnce, async ([pnode, groups]) => {
      const asked = oneByOne ? groups.filter(({ workload }) => !refused.has(workload)) : groups;
      const grant = asked.length > 0 ? await this.#claimOn(pnode, asked) : nothing;
      for (const { workload } of asked) if (!grant.workloads.has(workload)) refused.add(workload);
      grants.set(pnode, grant);
    });
    return grants;
  }

  async #claimOn(pnode: PNodeId, groups: readonly ClaimGroup[]): Promise<Grant> {
    const { mirror } = this.#context;
    let grant = nothing;
    let isBehind = false;
    await mirror.update(key.room(pnode), (current) => {
      grant = nothing;
      const record = mirror.get(key.pnode(pnode));
      if (!record) return undefined;
      isBehind = current !== undefined && current.life > record.life;
      const { room, workloads } = granted(current, { life: record.life, lent: lentBy(record) }, groups);
      grant = { life: record.life, workloads };
      return room && { ...room, pnode };
    });
    // Others know of a later life of the PNode: until this orchestrator does, it would choose it again and again.
    if (isBehind) await mirror.read(key.pnode(pnode));
    return grant;
  }

  /** What cannot be given back now is swept later. */
  async giveBack(claims: Iterable<HeldClaim>): Promise<void> {
    const byPNode = Map.groupBy(claims, ({ pnode }) => pnode);
    await forEachAtOnce(Array.from(byPNode), writesAtOnce, ([pnode, own]) =>
      this.#remove(pnode, new Set(own.map(({ claim }) => claim))),
    );
  }

  async #remove(pnode: PNodeId, ids: ReadonlySet<string>): Promise<void> {
    await this.#context.mirror.update(key.room(pnode), (current) => {
      const room = withoutClaims(current, ids);
      return room && { ...room, pnode };
    });
  }

  /** Takes away claims that no owner stands on and none ever will. */
  async sweep(): Promise<void> {
    const { mirror, world } = this.#context;
    const nowMs = world.clock.monotonicMs();
    const open = new Set<string>();
    const rubbish: HeldClaim[] = [];
    for (const { pnode, claims } of mirror.under(prefix.rooms))
      for (const [id, claim] of Object.entries(claims)) {
        const state = claimState(id, claim, mirror.get(key.vnode(claim.session, claim.vnode)));
        if (state === "held") continue;
        open.add(id);
        const sinceMs = this.#openSinceMs.get(id) ?? nowMs;
        this.#openSinceMs.set(id, sinceMs);
        if (state === "void") rubbish.push({ pnode, claim: id });
        else if (nowMs - sinceMs >= openMsMax && (await this.#fence(id, claim))) rubbish.push({ pnode, claim: id });
      }
    for (const id of this.#openSinceMs.keys()) if (!open.has(id)) this.#openSinceMs.delete(id);
    await this.giveBack(rubbish);
  }

  /** Whoever claimed may only be slow. Its owner is written under the next epoch, so the VNode passes that one first. */
  async #fence(id: string, claim: Claim): Promise<boolean> {
    const { record } = await this.#context.mirror.update(key.vnode(claim.session, claim.vnode), (current) =>
      current && claimState(id, claim, current) === "open" ? { ...current, epoch: claim.epoch } : undefined,
    );
    return record === undefined || claimState(id, claim, record) === "void";
  }
}

/** Names claims apart, whoever makes them. */
export function claimId({ world }: Context): string {
  return Buffer.from(world.chance.bytes(9)).toString("base64url");
}
