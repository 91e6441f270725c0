// What attached PNodes are told: everything they are to host, whole, and where the VNodes of their workloads are.
// Composed from the mirror at the moment of sending; every change marks whom it concerns.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { isReplicaId, type PNodeId, type VNodeId } from "../../../core/ids.ts";
import { charterToWire } from "../../../crew/charter.ts";
import { roundToWire } from "../../../network/settings/wire-rounds.ts";
import type { AssignmentSchema } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { TenureSchema } from "../../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import { splitRoutes } from "../../../protocol/routes/routes.ts";
import type { Context } from "../../context.ts";
import type { IntervalRecord } from "../../records/checking.ts";
import type { IdentityRecord, PNodeRecord } from "../../records/machines.ts";
import type { Mirror } from "../../records/mirror.ts";
import type { SessionRecord, WorkloadRecord } from "../../records/sessions.ts";
import { key, prefix } from "../../records/store-keys.ts";
import type { VNodeRecord } from "../../records/vnodes.ts";
import { isLive, onWorkload } from "../../records/workloads.ts";
import type { Charters } from "../../sessions/charters.ts";
import type { Compiled } from "../../sessions/compiled.ts";
import type { Capacity } from "../capacity/capacity.ts";
import type { Attachment, Composer, Down } from "./attachment.ts";

/** Up to here every PNode hears of all VNodes of its workloads. */
const locationsWhole = 64;
const tellDelayMsMax = 100;

type AssignedWork = NonNullable<MessageInitShape<typeof AssignmentSchema>["work"]>;

export interface PlacedLocation {
  readonly vnode: VNodeId;
  readonly epoch: bigint;
  readonly pnode: PNodeId;
  readonly routes: string[];
  readonly replica: number;
  /** That the PNode shows now, where it is not its id's own. */
  readonly key?: string;
}

export class Assignments implements Composer {
  readonly #context: Context;
  readonly #capacity: Capacity;
  readonly #attachments: ReadonlyMap<PNodeId, Attachment>;
  /** PNodes that were told of a workload, so that they also hear of its end. */
  readonly #told = new Map<string, Set<PNodeId>>();
  /** Workloads whose PNodes will be told soon: a burst of changes leads to one message. */
  readonly #due = new Set<string>();
  readonly #compiled: Compiled;
  readonly #charters: Charters;
  readonly #revisions = new Map<string, { readonly changes: number; readonly revision: bigint }>();

  constructor(
    context: Context,
    capacity: Capacity,
    compiled: Compiled,
    charters: Charters,
    attachments: ReadonlyMap<PNodeId, Attachment>,
  ) {
    this.#context = context;
    this.#compiled = compiled;
    this.#charters = charters;
    this.#capacity = capacity;
    this.#attachments = attachments;
    const { mirror } = context;
    mirror.on("vnode", (now, before) => this.#onVNode(now, before));
    mirror.on("session", (now, before) => this.#onLine(now, before));
    onWorkload(mirror, (now, before) => this.#onStatus(now, before));
    mirror.on("pnode", (now, before) => this.#onPNode(now, before));
    mirror.on("interval", (now, before) => this.#onInterval(now, before));
  }

  assignments(pnode: PNodeId, revision: number): Down {
    const assignments = [];
    const { mirror } = this.#context;
    const incarnation = this.#attachments.get(pnode)?.incarnation;
    for (const storeKey of this.#capacity.vnodesOn(pnode)) {
      const record = mirror.get(storeKey);
      const workload = record && mirror.get(key.workload(record.session));
      const replica = record?.members.findIndex((member) => member.pnode === pnode) ?? -1;
      const member = record?.members[replica];
      if (!record || !workload || !member || !isLive(workload) || member.incarnation !== incarnation) continue;
      // Heard of before the class that its session's lanes share: it would compute for ever without what they learn together.
      if (member.class && !workload.numericsClass) continue;
      assignments.push({
        session: record.session,
        vnode: record.vnode,
        epoch: BigInt(record.epoch),
        replica,
        since: BigInt(member.since),
        work: workOf(mirror, record, member.class),
      });
      this.#remember(record.session, pnode);
    }
    assignments.push(...this.#auditsOf(pnode));
    return { event: { case: "assignments", value: { revision: BigInt(revision), assignments } } };
  }

  /** Intervals that it is to repeat; nothing of what they should come to. */
  #auditsOf(pnode: PNodeId): MessageInitShape<typeof AssignmentSchema>[] {
    return this.#context.mirror.under(prefix.intervals).flatMap(({ session, from, to, turn, audits }) =>
      Object.entries(audits).flatMap(([vnode, { tasks, stated }]) => {
        const task = tasks.find((one) => one.pnode === pnode && one.result === undefined && !one.gaveUp);
        const statement = stated[0]?.statement;
        if (task === undefined || statement === undefined) return [];
        const { before, inputs } = statement;
        const beside = [...(stated[0]?.beside ?? [])];
        const { against = "", role } = task;
        const span = { from: BigInt(from), to: BigInt(to), turn: BigInt(turn) };
        const value = { ...span, before, inputs, beside, against, keep: role === "repeat" };
        return [{ session, vnode, work: { case: "auditing" as const, value } }];
      }),
    );
  }

  #onInterval(now: IntervalRecord | undefined, before: IntervalRecord | undefined): void {
    const pnodes = [now, before].flatMap((one) =>
      Object.values(one?.audits ?? {}).flatMap(({ tasks }) => tasks.map(({ pnode }) => pnode)),
    );
    for (const pnode of new Set(pnodes)) this.#attachments.get(pnode)?.tellAssignments();
  }

  session(pnode: PNodeId, id: string): Down | undefined {
    const { mirror } = this.#context;
    const workload = mirror.get(key.workload(id));
    this.#remember(id, pnode);
    const isCrew = this.#charters.crewOf(id).has(pnode);
    const charter = isCrew ? this.#charters.charterOf(id, this.revision(id)) : undefined;
    return {
      event: {
        case: "session",
        value: {
          session: id,
          status: workload ? wireStatus(workload) : "deleted",
          locations: workload && isLive(workload) ? this.locations(workload, this.#concerns(workload, pnode)) : [],
          revision: this.revision(id),
          ...lineOf(mirror, id),
          ...(charter && { charter: charterToWire(charter) }),
          vacant: isCrew && workload ? this.#vacant(workload) : [],
        },
      },
    };
  }

  /**
   * A crew that an earlier charter named may have taken over what nobody owns any more, by an epoch that counts no longer: no location
   * would tell it so, and what it hosts is room that others were given.
   */
  #vacant({ id, vnodes }: WorkloadRecord): MessageInitShape<typeof TenureSchema>[] {
    return vnodes.flatMap((vnode) => {
      const record = this.#context.mirror.get(key.vnode(id, vnode));
      return record?.members.length === 0 ? [{ vnode, epoch: BigInt(record.epoch), count: 0, owners: [] }] : [];
    });
  }

  /** In a large workload a PNode hears only of VNodes that its own exchange messages with. */
  #concerns(workload: WorkloadRecord, pnode: PNodeId): ReadonlySet<string> | undefined {
    if (workload.vnodes.length <= locationsWhole) return undefined;
    const neighbours = this.#compiled.neighbours(workload.identity);
    if (!neighbours) return undefined;
    const concerned = new Set<string>();
    for (const storeKey of this.#capacity.vnodesOn(pnode)) {
      const record = this.#context.mirror.get(storeKey);
      if (record?.session !== workload.id) continue;
      for (const vnode of neighbours.get(record.vnode) ?? []) concerned.add(vnode);
    }
    return concerned;
  }

  /** Grows with every change of the workload and its VNodes, alike on all orchestrators. */
  revision(workload: string): bigint {
    const { mirror } = this.#context;
    const known = this.#revisions.get(workload);
    if (known?.changes === mirror.changes) return known.revision;
    let sum = mirror.version(key.workload(workload));
    for (const vnode of mirror.get(key.workload(workload))?.vnodes ?? [])
      sum += mirror.version(key.vnode(workload, vnode));
    this.#revisions.set(workload, { changes: mirror.changes, revision: BigInt(sum) });
    return BigInt(sum);
  }

  locations({ id, vnodes }: Pick<WorkloadRecord, "id" | "vnodes">, only?: ReadonlySet<string>): PlacedLocation[] {
    const locations: PlacedLocation[] = [];
    for (const vnode of vnodes) {
      if (only && !only.has(vnode)) continue;
      const record = this.#context.mirror.get(key.vnode(id, vnode));
      record?.members.forEach((member, replica) => {
        const pnode = this.#context.mirror.get(key.pnode(member.pnode));
        // Records of earlier versions have no routes until their PNodes register again.
        if (!pnode?.routes || pnode.incarnation !== member.incarnation) return;
        locations.push({
          vnode,
          epoch: BigInt(record.epoch),
          pnode: member.pnode,
          routes: splitRoutes(pnode.routes),
          replica,
          ...presentKey(this.#context.mirror.get(key.identity(member.pnode))),
        });
      });
    }
    return locations;
  }

  #remember(workload: string, pnode: PNodeId): void {
    const pnodes = this.#told.get(workload) ?? new Set();
    this.#told.set(workload, pnodes.add(pnode));
  }

  #onVNode(now: VNodeRecord | undefined, before: VNodeRecord | undefined): void {
    const record = now ?? before;
    if (!record) return;
    if (now && before && now.epoch === before.epoch) {
      this.#onState(now, before);
      return;
    }
    for (const member of [...(before?.members ?? []), ...(now?.members ?? [])])
      this.#attachments.get(member.pnode)?.tellAssignments();
    for (const member of now?.members ?? []) this.#remember(record.session, member.pnode);
    this.#tellAll(record.session);
  }

  /** The line may have been heard of before the state that lies on it: its owner could not start there without. */
  #onState(now: VNodeRecord, before: VNodeRecord): void {
    const line = String(this.#context.mirror.get(key.session(now.session))?.line ?? 0);
    if (now.durable[line]?.hash === before.durable[line]?.hash) return;
    for (const { pnode } of now.members) this.#attachments.get(pnode)?.tellAssignments();
  }

  #onStatus(now: WorkloadRecord | undefined, before: WorkloadRecord | undefined): void {
    const id = (now ?? before)?.id;
    if (id !== undefined && now?.status !== before?.status) this.#tellAssignments(id);
  }

  #onLine(now: SessionRecord | undefined, before: SessionRecord | undefined): void {
    const id = (now ?? before)?.id;
    if (id === undefined) return;
    const isOtherwise = now?.numericsClass !== before?.numericsClass;
    if (isOtherwise || now?.line !== before?.line || now?.turn !== before?.turn) this.#tellAssignments(id);
    else if (now?.drawn !== before?.drawn || now?.rounds !== before?.rounds) this.#tellAll(id);
  }

  #tellAssignments(workload: string): void {
    for (const pnode of this.#told.get(workload) ?? []) this.#attachments.get(pnode)?.tellAssignments();
    this.#tellAll(workload);
  }

  /** A PNode that came back elsewhere has new routes: everyone who talks to it must know. */
  #onPNode(now: PNodeRecord | undefined, before: PNodeRecord | undefined): void {
    if (!now || (now.routes === before?.routes && now.incarnation === before?.incarnation)) return;
    for (const workload of this.#capacity.workloadsOn(now.id)) this.#tellAll(workload);
    // It may be of a crew from now on, or no longer.
    for (const { id } of this.#charters.sessions()) this.#tellAll(id);
  }

  /** Small workloads hear at once; in large ones many records change together, and each change concerns many. */
  #tellAll(workload: string): void {
    const vnodes = this.#context.mirror.get(key.workload(workload))?.vnodes.length ?? 0;
    if (vnodes <= locationsWhole) {
      this.#tellNow(workload);
      return;
    }
    if (this.#due.has(workload)) return;
    this.#due.add(workload);
    this.#context.tasks.after(Math.min(tellDelayMsMax, vnodes / 20), () => {
      this.#due.delete(workload);
      this.#tellNow(workload);
    });
  }

  #tellNow(workload: string): void {
    for (const pnode of this.#charters.crewOf(workload).keys())
      if (this.#attachments.has(pnode)) this.#remember(workload, pnode);
    const told = this.#told.get(workload);
    for (const pnode of told ?? []) {
      const attachment = this.#attachments.get(pnode);
      if (attachment) attachment.tellSession(workload);
      else told?.delete(pnode);
    }
    // VNodes may be heard of before their workload; one that was deleted has none.
    const { mirror } = this.#context;
    if (!mirror.get(key.workload(workload)) && mirror.under(prefix.vnodesOf(workload)).length === 0) {
      this.#told.delete(workload);
      this.#revisions.delete(workload);
      this.#charters.forget(workload);
    }
  }
}

function wireStatus({ status }: WorkloadRecord): string {
  return status === "waiting" || status === "created" ? "running" : status;
}

/** Where a session that starts or goes on starts; replicas have no lines. */
export function lineOf(mirror: Mirror, id: string) {
  const { line = 0, turn = 0, drawn = [], rounds = [] } = mirror.get(key.session(id)) ?? {};
  const told = drawn.map(({ vnode, from, to }) => ({ vnode, from: BigInt(from), to: BigInt(to) }));
  return { line: BigInt(line), turn: BigInt(turn), drawn: told, rounds: rounds.map(roundToWire) };
}

/** What the VNode's owner is told to do. */
export function workOf(
  mirror: Mirror,
  { session, durable, rounding = "" }: VNodeRecord,
  numericsClass = "",
): AssignedWork {
  if (isReplicaId(session)) return { case: "answering", value: {} };
  const { line, ...told } = lineOf(mirror, session);
  const commonClass = numericsClass && (mirror.get(key.workload(session))?.numericsClass ?? "");
  const state = durable[String(line)]?.hash ?? "";
  return { case: "learning", value: { line, ...told, state, numericsClass, commonClass, rounding } };
}

function presentKey(identity: IdentityRecord | undefined): { readonly key?: string } {
  const present = identity?.keys.at(-1)?.key;
  return present === undefined ? {} : { key: present };
}
