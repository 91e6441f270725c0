// The VNodes that this PNode trains, kept as orchestrators list them, with what is known of their sessions. A VNode
// that somebody else has taken over does not come back under the same epoch.

import type { SessionId, VNodeId, WorkloadId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { World } from "../../core/world.ts";
import { type Assignment, hostKey } from "../assignment.ts";
import type { Resolver } from "../resolver.ts";
import type { Room } from "../room.ts";
import type { ToldLine } from "../told-line.ts";
import type { PreparedLives } from "./prepared.ts";
import type { Directory } from "./receiver.ts";
import type { SessionContexts } from "./session-contexts.ts";
import type { VNodeHost } from "./vnode-host.ts";

export interface HostedOptions {
  readonly world: World;
  readonly tasks: Tasks;
  readonly resolver: Resolver;
  readonly prepared: PreparedLives;
  readonly contexts: SessionContexts;
  readonly room: Room;
  readonly host: (assignment: Assignment) => VNodeHost;
  /** Sessions that may have to be gone on with here are not forgotten. */
  readonly isAwaited: (session: SessionId) => boolean;
}

export class HostedVNodes implements Directory {
  readonly #options: HostedOptions;
  readonly #hosts = new Map<string, VNodeHost>();
  /** Under epochs up to these, somebody else owns the VNode. */
  readonly #fenced = new Map<string, number>();

  constructor(options: HostedOptions) {
    this.#options = options;
    options.prepared.onDiscarded = (session) => this.forgetUnused(session);
  }

  find(session: SessionId, vnode: VNodeId): VNodeHost | undefined {
    return this.#hosts.get(hostKey(session, vnode));
  }

  all(): VNodeHost[] {
    return [...this.#hosts.values()];
  }

  /** The list is whole: what is not in it is dropped, what is in it already goes on. */
  reconcile(assignments: readonly Assignment[]): void {
    const wanted = new Map(assignments.map((wanted) => [hostKey(wanted.session, wanted.vnode), wanted]));
    for (const [key, host] of this.#hosts) if (!wanted.has(key)) this.#drop(key, host);
    for (const [key, assignment] of wanted) {
      const host = this.#hosts.get(key);
      if (host !== undefined) host.reassign(assignment);
      else if (assignment.epoch > (this.#fenced.get(key) ?? -1)) this.#host(key, assignment);
    }
    for (const key of this.#fenced.keys()) if (!wanted.has(key)) this.#fenced.delete(key);
  }

  /** Taken over from somebody who is gone, without an orchestrator's word. */
  takeOver(assignment: Assignment): void {
    const key = hostKey(assignment.session, assignment.vnode);
    if (!this.#hosts.has(key)) this.#host(key, assignment);
  }

  /** Somebody else has taken it over. */
  giveUp(session: SessionId, vnode: VNodeId): void {
    const key = hostKey(session, vnode);
    const host = this.#hosts.get(key);
    if (host !== undefined) this.#drop(key, host);
  }

  of(session: SessionId): VNodeHost[] {
    return this.#of(session);
  }

  /** Loads what is likely to come; it is hosted only when the list says so. */
  prepare(assignments: readonly Assignment[]): void {
    for (const assignment of assignments)
      if (!this.find(assignment.session, assignment.vnode)) this.#options.prepared.prepare(assignment);
  }

  /** Of a replica it says nothing: none of its VNodes learns. */
  lineAdvanced(session: WorkloadId, told: ToldLine): void {
    for (const host of this.#of(session)) host.lineAdvanced(told);
  }

  setPaused(session: WorkloadId, paused: boolean): void {
    for (const host of this.#of(session)) host.setPaused(paused);
  }

  setFull(full: boolean): void {
    for (const host of this.#hosts.values()) host.setFull(full);
  }

  async stop(): Promise<void> {
    this.#options.prepared.stop();
    await Promise.all(this.all().map((host) => host.stop()));
    this.#hosts.clear();
  }

  #of(session: WorkloadId): VNodeHost[] {
    return this.all().filter((host) => host.assignment.session === session);
  }

  #host(key: string, assignment: Assignment): void {
    const { session, vnode, epoch, line } = assignment;
    const about = { session, vnode, step: line, epoch };
    this.#options.world.log("info", `hosting VNode ${vnode} of session ${session} from step ${line}`, about);
    // A session that was deleted may come again under its id: what was known of the first one is void.
    if (this.#of(session).length === 0) this.#options.resolver.forget(session);
    this.#options.resolver.refresh(session);
    this.#hosts.set(key, this.#options.host(assignment));
  }

  #drop(key: string, host: VNodeHost): void {
    const { session, vnode } = host.assignment;
    const about = { session, vnode };
    this.#options.world.log("info", `VNode ${vnode} of session ${session} is no longer hosted here`, about);
    this.#hosts.delete(key);
    this.#options.tasks.run(`stop VNode ${vnode}`, () => host.stop());
    this.#options.room.giveBack(key);
    this.forgetUnused(session);
  }

  /** Unless something of it is hosted or expected here. */
  forgetUnused(session: SessionId): void {
    if (this.#of(session).length > 0 || this.#options.prepared.has(session)) return;
    if (!this.#options.isAwaited(session)) this.#options.contexts.forget(session);
    this.#options.resolver.forget(session);
  }

  /** Somebody else owns what was assigned here. */
  fenced({ session, vnode, epoch }: Assignment): void {
    const key = hostKey(session, vnode);
    const host = this.#hosts.get(key);
    if (host === undefined || host.assignment.epoch > epoch) return;
    this.#fenced.set(key, epoch);
    this.#drop(key, host);
  }
}
