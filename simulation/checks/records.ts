// The store's records as the simulated world sees them: for checkers, faults that aim, and mutants.

import type { Sha256 } from "../../src/core/ids.ts";
import type { RoomRecord } from "../../src/orchestrator/records/machines.ts";
import type { ReplicaRecord, SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { speech } from "../scenarios.ts";
import type { SimulatedStore } from "../world/store.ts";

/** The store's records as of now, without waiting. */
export class Records {
  readonly #values = new Map<string, object>();
  /** Of the replicas that a model has or had, by model. */
  readonly #classes = new Map<string, Set<string>>();
  /** Whom a machine that lies pretends to be (liar.ts): mutants believe it. */
  pretended = "";

  constructor(store: SimulatedStore) {
    store.onWrite(({ key, after }) => {
      if (after === undefined) this.#values.delete(key);
      else this.#values.set(key, JSON.parse(after) as object);
      if (after !== undefined && key.startsWith("replica/")) this.#placed(JSON.parse(after) as ReplicaRecord);
    });
  }

  #placed({ model, numericsClass }: ReplicaRecord): void {
    if (numericsClass === "") return;
    this.#classes.set(model, (this.#classes.get(model) ?? new Set()).add(numericsClass));
  }

  /** The numerics classes in which replicas of a model answer or answered. */
  classesOf(model: string): string[] {
    return [...(this.#classes.get(model) ?? [])];
  }

  vnode(session: string, vnode: string): VNodeRecord | undefined {
    return this.#values.get(`vnode/${session}/${vnode}`) as VNodeRecord | undefined;
  }

  /** The checkpoints that records name now and that could be computed again: not what is served, nor what will be. */
  checkpoints(): Sha256[] {
    const served = this.#under<ReplicaRecord>("replica/").flatMap(({ identity }) => Object.values(identity.states));
    const lasting = new Set(this.#vnodes().flatMap((record) => (this.#isTraining(record) ? [] : hashesOf(record))));
    for (const { hash } of served) lasting.add(hash);
    return this.#vnodes().flatMap((record) => hashesOf(record).filter((hash) => !lasting.has(hash)));
  }

  /** The states from which running sessions would start again now, with their VNodes' owners. */
  lineStates(): { hash: Sha256; owner: string }[] {
    return this.#vnodes().flatMap((record) => {
      const state = record.durable[String(this.session(record.session)?.line)];
      const owner = record.members[0]?.pnode;
      return state === undefined || owner === undefined || !this.#isTraining(record)
        ? []
        : [{ hash: state.hash, owner }];
    });
  }

  #isTraining({ session }: VNodeRecord): boolean {
    const record = this.session(session);
    return record?.status === "running" && record.network !== speech.name;
  }

  room(pnode: string): RoomRecord | undefined {
    return this.#values.get(`room/${pnode}`) as RoomRecord | undefined;
  }

  /** Replicas that answer. */
  served(): string[] {
    return this.#under<ReplicaRecord>("replica/").flatMap(({ id, status }) => (status === "running" ? [id] : []));
  }

  sessions(): SessionRecord[] {
    return this.#under<SessionRecord>("session/");
  }

  /** VNodes of sessions and replicas that are not there. */
  strays(): string[] {
    const isThere = (id: string) => this.#values.has(`session/${id}`) || this.#values.has(`replica/${id}`);
    return this.#vnodes().flatMap(({ session, vnode }) => (isThere(session) ? [] : [`${session}/${vnode}`]));
  }

  /** PNodes that own something. */
  owners(): string[] {
    return [...new Set(this.#vnodes().flatMap(({ members }) => members.map(({ pnode }) => pnode)))].sort();
  }

  #vnodes(): VNodeRecord[] {
    return this.#under<VNodeRecord>("vnode/");
  }

  under<T extends object>(prefix: string): T[] {
    return this.#under(prefix);
  }

  #under<T extends object>(prefix: string): T[] {
    return [...this.#values].flatMap(([key, value]) => (key.startsWith(prefix) ? [value as T] : []));
  }

  session(id: string): SessionRecord | undefined {
    return this.#values.get(`session/${id}`) as SessionRecord | undefined;
  }
}

function hashesOf({ durable }: VNodeRecord): Sha256[] {
  return Object.values(durable).map(({ hash }) => hash);
}
