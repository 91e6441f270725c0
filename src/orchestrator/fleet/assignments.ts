// What attached PNodes are told: everything they are to host, whole, and where their sessions' VNodes are.
// Composed from the mirror at the moment of sending; every change marks whom it concerns.

import type { PNodeId, VNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import { key, type PNodeRecord, prefix, type SessionRecord, type VNodeRecord } from "../records/records.ts";
import type { Compiled } from "../sessions/compiled.ts";
import type { Attachment, Composer, Down } from "./attachment.ts";
import type { Capacity } from "./capacity.ts";

/** Up to here every PNode hears of all VNodes of its sessions. */
const locationsWhole = 64;
const tellDelayMsMax = 100;

export interface PlacedLocation {
  readonly vnode: VNodeId;
  readonly epoch: bigint;
  readonly pnode: PNodeId;
  readonly address: string;
  readonly replica: number;
}

export class Assignments implements Composer {
  readonly #context: Context;
  readonly #capacity: Capacity;
  readonly #attachments: ReadonlyMap<PNodeId, Attachment>;
  /** PNodes that were told of a session, so that they also hear of its end. */
  readonly #told = new Map<string, Set<PNodeId>>();
  /** Sessions whose PNodes will be told soon: a burst of changes leads to one message. */
  readonly #due = new Set<string>();
  readonly #compiled: Compiled;
  readonly #revisions = new Map<string, { readonly changes: number; readonly revision: bigint }>();

  constructor(context: Context, capacity: Capacity, compiled: Compiled, attachments: ReadonlyMap<PNodeId, Attachment>) {
    this.#context = context;
    this.#compiled = compiled;
    this.#capacity = capacity;
    this.#attachments = attachments;
    const { mirror } = context;
    mirror.on("vnode", (now, before) => this.#onVNode(now, before));
    mirror.on("session", (now, before) => this.#onSession(now, before));
    mirror.on("pnode", (now, before) => this.#onPNode(now, before));
  }

  assignments(pnode: PNodeId, revision: number): Down {
    const assignments = [];
    const incarnation = this.#attachments.get(pnode)?.incarnation;
    for (const storeKey of this.#capacity.vnodesOn(pnode)) {
      const record = this.#context.mirror.get(storeKey);
      const session = record && this.#context.mirror.get(key.session(record.session));
      const replica = record?.members.findIndex((member) => member.pnode === pnode) ?? -1;
      const member = record?.members[replica];
      if (!record || !session || !member || !isLive(session) || member.incarnation !== incarnation) continue;
      assignments.push({
        session: record.session,
        vnode: record.vnode,
        epoch: BigInt(record.epoch),
        line: BigInt(session.line),
        state: record.durable[String(session.line)]?.hash ?? "",
        replica,
        since: BigInt(member.since),
        serving: session.serving !== undefined,
        turn: BigInt(session.turn ?? 0),
      });
      this.#remember(record.session, pnode);
    }
    return { event: { case: "assignments", value: { revision: BigInt(revision), assignments } } };
  }

  session(pnode: PNodeId, id: string): Down | undefined {
    const session = this.#context.mirror.get(key.session(id));
    this.#remember(id, pnode);
    return {
      event: {
        case: "session",
        value: {
          session: id,
          status: session ? wireStatus(session) : "deleted",
          line: BigInt(session?.line ?? 0),
          locations: session && isLive(session) ? this.locations(session, this.#concerns(session, pnode)) : [],
          revision: this.revision(id),
          turn: BigInt(session?.turn ?? 0),
        },
      },
    };
  }

  /** In a large session a PNode hears only of VNodes that its own exchange messages with. */
  #concerns(session: SessionRecord, pnode: PNodeId): ReadonlySet<string> | undefined {
    if (session.vnodes.length <= locationsWhole) return undefined;
    const neighbours = this.#compiled.neighbours(session.identity.definition);
    if (!neighbours) return undefined;
    const concerned = new Set<string>();
    for (const storeKey of this.#capacity.vnodesOn(pnode)) {
      const record = this.#context.mirror.get(storeKey);
      if (record?.session !== session.id) continue;
      for (const vnode of neighbours.get(record.vnode) ?? []) concerned.add(vnode);
    }
    return concerned;
  }

  /** Grows with every change of the session and its VNodes, alike on all orchestrators. */
  revision(session: string): bigint {
    const { mirror } = this.#context;
    const known = this.#revisions.get(session);
    if (known?.changes === mirror.changes) return known.revision;
    let sum = mirror.version(key.session(session));
    for (const vnode of mirror.get(key.session(session))?.vnodes ?? [])
      sum += mirror.version(key.vnode(session, vnode));
    this.#revisions.set(session, { changes: mirror.changes, revision: BigInt(sum) });
    return BigInt(sum);
  }

  locations(session: SessionRecord, only?: ReadonlySet<string>): PlacedLocation[] {
    const locations: PlacedLocation[] = [];
    for (const vnode of session.vnodes) {
      if (only && !only.has(vnode)) continue;
      const record = this.#context.mirror.get(key.vnode(session.id, vnode));
      record?.members.forEach((member, replica) => {
        const pnode = this.#context.mirror.get(key.pnode(member.pnode));
        if (!pnode || pnode.incarnation !== member.incarnation) return;
        locations.push({ vnode, epoch: BigInt(record.epoch), pnode: member.pnode, address: pnode.address, replica });
      });
    }
    return locations;
  }

  #remember(session: string, pnode: PNodeId): void {
    const pnodes = this.#told.get(session) ?? new Set();
    this.#told.set(session, pnodes.add(pnode));
  }

  #onVNode(now: VNodeRecord | undefined, before: VNodeRecord | undefined): void {
    const record = now ?? before;
    if (!record || (now && before && now.epoch === before.epoch)) return;
    for (const member of [...(before?.members ?? []), ...(now?.members ?? [])])
      this.#attachments.get(member.pnode)?.tellAssignments();
    for (const member of now?.members ?? []) this.#remember(record.session, member.pnode);
    this.#tellAll(record.session);
  }

  #onSession(now: SessionRecord | undefined, before: SessionRecord | undefined): void {
    const id = (now ?? before)?.id;
    const changed = now?.line !== before?.line || now?.turn !== before?.turn || now?.status !== before?.status;
    if (!changed || id === undefined) return;
    for (const pnode of this.#told.get(id) ?? []) this.#attachments.get(pnode)?.tellAssignments();
    this.#tellAll(id);
  }

  /** A PNode that came back elsewhere has a new address: everyone who talks to it must know. */
  #onPNode(now: PNodeRecord | undefined, before: PNodeRecord | undefined): void {
    if (!now || (now.address === before?.address && now.incarnation === before.incarnation)) return;
    for (const session of this.#capacity.sessionsOn(now.id)) this.#tellAll(session);
  }

  /** Small sessions hear at once; in large ones many records change together, and each change concerns many. */
  #tellAll(session: string): void {
    const vnodes = this.#context.mirror.get(key.session(session))?.vnodes.length ?? 0;
    if (vnodes <= locationsWhole) {
      this.#tellNow(session);
      return;
    }
    if (this.#due.has(session)) return;
    this.#due.add(session);
    this.#context.tasks.after(Math.min(tellDelayMsMax, vnodes / 20), () => {
      this.#due.delete(session);
      this.#tellNow(session);
    });
  }

  #tellNow(session: string): void {
    const told = this.#told.get(session);
    for (const pnode of told ?? []) {
      const attachment = this.#attachments.get(pnode);
      if (attachment) attachment.tellSession(session);
      else told?.delete(pnode);
    }
    // VNodes may be heard of before their session; one that was deleted has none.
    const { mirror } = this.#context;
    if (!mirror.get(key.session(session)) && mirror.under(prefix.vnodesOf(session)).length === 0) {
      this.#told.delete(session);
      this.#revisions.delete(session);
    }
  }
}

export function isLive(session: SessionRecord): boolean {
  return session.status === "running" || session.status === "waiting";
}

function wireStatus(session: SessionRecord): string {
  return session.status === "waiting" || session.status === "created" ? "running" : session.status;
}
