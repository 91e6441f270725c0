// Who may repeat an interval: a machine of the session's numerics class and of another owner and network than whoever is
// checked, with room for the VNode, and no neighbour of it, whose messages it would be judging; or one that somebody trusts. Those without other work
// come first, so that checking costs hardly any time.

import { isReplicaId, type PNodeId, type VNodeId } from "../../core/ids.ts";
import { bytes } from "../../scheduler/placement/constraints.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import { isOpen, type PNodeRecord } from "../records/machines.ts";
import type { Mirror } from "../records/mirror.ts";
import type { ReplicaRecord, SessionRecord, WorkloadRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { Compiled } from "../sessions/compiled.ts";
import { type Candidate, isUnderWay } from "./asking.ts";
import { byLot } from "./lottery.ts";
import { type Level, levelOf } from "./standing.ts";
import type { Standings } from "./standings.ts";

export interface AuditorNeeds {
  readonly capacity: Capacity;
  readonly compiled: Compiled;
  readonly standings: Standings;
}

interface WantedAuditor {
  /** What is drawn for. */
  readonly subject: string;
  readonly draw: string;
  readonly except: ReadonlySet<PNodeId>;
  readonly trustedOnly: boolean;
  readonly memoryBytes: number;
  /** Those who exchange messages with whoever is checked. */
  readonly near: ReadonlySet<PNodeId>;
}

export class Auditors {
  readonly #context: Context;
  readonly #needs: AuditorNeeds;

  constructor(context: Context, needs: AuditorNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  candidates(
    session: SessionRecord,
    vnodes: readonly VNodeId[],
    draw: string,
    except: ReadonlySet<PNodeId>,
    trustedOnly: boolean,
  ): Candidate[] {
    const subject = [...vnodes].sort()[0] as VNodeId;
    const wanted = { subject, draw, except, trustedOnly, near: this.#neighbours(session, vnodes) };
    return this.#among(session, { ...wanted, memoryBytes: this.#memoryBytes(session, vnodes) });
  }

  #memoryBytes({ id }: SessionRecord, vnodes: readonly VNodeId[]): number {
    return vnodes.reduce((sum, vnode) => sum + (this.#context.mirror.get(key.vnode(id, vnode))?.memoryBytes ?? 0), 0);
  }

  /** Those who may repeat an answer of a replica that others make up: it takes the memory of one of its VNodes at a time. */
  forAnswer(replica: ReplicaRecord, draw: string, except: ReadonlySet<PNodeId>): Candidate[] {
    const { mirror } = this.#context;
    const bytes = replica.vnodes.map((vnode) => mirror.get(key.vnode(replica.id, vnode))?.memoryBytes ?? 0);
    const memoryBytes = Math.max(0, ...bytes);
    return this.#among(replica, {
      ...{ subject: replica.id, draw, except, trustedOnly: false, memoryBytes, near: new Set() },
    });
  }

  /** Whether somebody may come back who could repeat an answer of it, of those who were lost a moment ago. */
  mayReturnFor(replica: ReplicaRecord, except: ReadonlySet<PNodeId>, wasHere: (pnode: PNodeId) => boolean): boolean {
    const { mirror } = this.#context;
    const others = recordsOf(mirror, except);
    return mirror.under(prefix.pnodes).some((record) => {
      if (record.status !== "lost" || except.has(record.id) || !wasHere(record.id)) return false;
      if (!isOpen({ ...record, status: "online" }) || !isOfClass(record, replica)) return false;
      return this.#levelOf(record) === "trusted" || !others.some((other) => areRelated(record, other));
    });
  }

  /** Of an interval that nobody is left to repeat: why that is so, as a clause. */
  whyNobody(
    session: SessionRecord,
    vnodes: readonly VNodeId[],
    except: ReadonlySet<PNodeId>,
    trustedOnly: boolean,
  ): string {
    const { mirror } = this.#context;
    const memoryBytes = this.#memoryBytes(session, vnodes);
    const wanted = { subject: "", draw: "", except, trustedOnly, near: this.#neighbours(session, vnodes) };
    const who = trustedOnly ? "trusted machine" : "machine";
    const isThere = (record: PNodeRecord) =>
      isOpen(record) && isOfClass(record, session) && (!trustedOnly || this.#levelOf(record) === "trusted");
    const there = mirror.under(prefix.pnodes).filter(isThere).length;
    if (there === 0) return `no ${who} of class ${session.numericsClass} is here that could repeat it`;
    const roomy = this.#among(session, { ...wanted, memoryBytes: 0 }).length;
    if (roomy === 0)
      return `all ${there} that could repeat it computed it, are of the same owner or network, or exchange messages with it`;
    return `none of ${roomy} that may repeat it has the ${bytes(memoryBytes)} of memory free that it takes`;
  }

  #levelOf({ id }: PNodeRecord): Level {
    return levelOf(this.#needs.standings.of(id));
  }

  #among(workload: WorkloadRecord, wanted: WantedAuditor): Candidate[] {
    const { subject, draw, except, trustedOnly, memoryBytes, near: neighbours } = wanted;
    const { mirror } = this.#context;
    const others = recordsOf(mirror, except);
    const isPartial = (record: PNodeRecord) =>
      neighbours.has(record.id) || others.some((other) => areRelated(record, other));
    const levels = new Map<PNodeId, Level>();
    const open = mirror.under(prefix.pnodes).filter((record) => {
      if (except.has(record.id) || !isOpen(record) || !isOfClass(record, workload)) return false;
      const level = this.#levelOf(record);
      levels.set(record.id, level);
      // Whoever is trusted judges friends and neighbours too: an operator's machines are often all that there are.
      if (level !== "trusted" && isPartial(record)) return false;
      return (this.#needs.capacity.fleet.get(record.id)?.memoryFreeBytes ?? 0) >= memoryBytes;
    });
    const trusted = open.filter(({ id }) => levels.get(id) === "trusted");
    const known = open.filter(({ id }) => levels.get(id) === "known");
    // A network of newcomers has nobody else to begin with.
    const able = trustedOnly ? trusted : trusted.length + known.length > 0 ? [...trusted, ...known] : open;
    const named = able.map(({ id }) => ({ pnode: id, trusted: levels.get(id) === "trusted" }));
    const tasks = this.#tasks();
    const workOf = (pnode: PNodeId) => (tasks.get(pnode) ?? 0) * 1_000 + this.#needs.capacity.vnodesOn(pnode).size;
    const work = new Map(named.map(({ pnode }) => [pnode, workOf(pnode)]));
    return byLot(draw, subject, named).sort(
      (a, b) => (work.get(a.pnode) as number) - (work.get(b.pnode) as number) || Number(b.trusted) - Number(a.trusted),
    );
  }

  isHere(pnode: PNodeId): boolean {
    const record = this.#context.mirror.get(key.pnode(pnode));
    return record?.status === "online" && !record.closed;
  }

  /** How many each has under way, of all sessions: counted once, since there are thousands of audits and every two machines are compared. */
  #tasks(): ReadonlyMap<PNodeId, number> {
    const counts = new Map<PNodeId, number>();
    for (const { audits } of this.#context.mirror.under(prefix.intervals))
      for (const { tasks } of Object.values(audits))
        for (const task of tasks) if (isUnderWay(task)) counts.set(task.pnode, (counts.get(task.pnode) ?? 0) + 1);
    return counts;
  }

  /** Owners of these VNodes and of those that they exchange messages with. */
  #neighbours({ id, identity, vnodes }: SessionRecord, own: readonly VNodeId[]): Set<PNodeId> {
    const { mirror } = this.#context;
    const near = own.flatMap((vnode) => [...(this.#needs.compiled.neighbours(identity)?.get(vnode) ?? vnodes)]);
    const owners = [...own, ...near].flatMap((one) => mirror.get(key.vnode(id, one))?.members ?? []);
    return new Set(owners.map(({ pnode }) => pnode));
  }
}

export function isOfClass(record: PNodeRecord, workload: WorkloadRecord): boolean {
  const { identity, numericsClass } = workload;
  const version = isReplicaId(workload.id) ? record.answerBits : record.bits;
  if ((version ?? 0) !== identity.bits || record.excluded?.includes(numericsClass)) return false;
  return record.facts.numerics.some((one) => one.engine === identity.numerics && one.class === numericsClass);
}

function recordsOf(mirror: Mirror, pnodes: ReadonlySet<PNodeId>): PNodeRecord[] {
  return Array.from(pnodes, (pnode) => mirror.get(key.pnode(pnode))).filter((one) => one !== undefined);
}

/** Two machines of one owner, or of one network as far as addresses tell: they may well be of one mind. */
function areRelated(one: PNodeRecord, other: PNodeRecord): boolean {
  if (one.owner !== "" && one.owner === other.owner) return true;
  return one.network !== undefined && one.network === other.network;
}
