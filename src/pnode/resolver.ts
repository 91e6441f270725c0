// Where VNodes are now: pushed by orchestrators, cached, asked for when a peer turns out to have moved. Wrong
// answers cost time, never correctness.

import type { SessionId, VNodeId } from "../core/ids.ts";
import type { Tasks } from "../core/tasks.ts";
import { sleep, type World } from "../core/world.ts";
import { PNodeService, type Location as ProtoLocation } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { Orchestrators } from "./orchestrators.ts";

export interface Location {
  readonly epoch: number;
  readonly pnode: string;
  readonly address: string;
  readonly replica: number;
}

interface Known {
  revision: bigint;
  readonly vnodes: Map<VNodeId, Location[]>;
}

/** Asking more often would only load the orchestrator: changes are pushed. */
const refreshPauseMs = 200;

export class Resolver {
  readonly #orchestrators: Orchestrators;
  readonly #world: World;
  readonly #tasks: Tasks;
  readonly #signal: AbortSignal;
  readonly #sessions = new Map<SessionId, Known>();
  readonly #refreshing = new Set<SessionId>();
  /** Hears of the line that came with an answer. */
  onLine: (session: SessionId, line: number, turn: number) => void = () => {};
  /** Hears when some VNode of a session has another owner than before. */
  onMoved: (session: SessionId) => void = () => {};

  constructor(orchestrators: Orchestrators, world: World, tasks: Tasks, signal: AbortSignal) {
    this.#orchestrators = orchestrators;
    this.#world = world;
    this.#tasks = tasks;
    this.#signal = signal;
  }

  /** All owners of a VNode, the primary first; empty if nobody is known. */
  locate(session: SessionId, vnode: VNodeId): readonly Location[] {
    const found = this.#sessions.get(session)?.vnodes.get(vnode);
    if (found === undefined) this.refresh(session);
    return found ?? [];
  }

  /** True if `pnode` speaks for a VNode as far as is known here; an older epoch from anybody else is a zombie's. */
  isOwner(session: SessionId, vnode: VNodeId, pnode: string, epoch: number): boolean {
    const known = this.#sessions.get(session)?.vnodes.get(vnode);
    if (known === undefined || known.length === 0) return true;
    return known.some((location) => location.pnode === pnode || epoch > location.epoch);
  }

  /** True if `pnode` owns anything of a session as far as is known here. */
  ownsAny(session: SessionId, pnode: string): boolean {
    const known = this.#sessions.get(session)?.vnodes.values() ?? [];
    return [...known].some((locations) => locations.some((location) => location.pnode === pnode));
  }

  /** Of all PNodes that own something as far as is known here. */
  addresses(): Set<string> {
    const found = new Set<string>();
    for (const { vnodes } of this.#sessions.values())
      for (const locations of vnodes.values()) for (const { address } of locations) found.add(address);
    return found;
  }

  update(session: SessionId, locations: readonly ProtoLocation[], revision: bigint): void {
    const known = this.#sessions.get(session) ?? { revision: -1n, vnodes: new Map() };
    this.#sessions.set(session, known);
    if (revision < known.revision) return;
    known.revision = revision;
    const before = new Map(known.vnodes);
    // The list is whole: who is not in it is nowhere.
    known.vnodes.clear();
    for (const [vnode, places] of Map.groupBy(locations, (location) => location.vnode as VNodeId)) {
      const next = places
        .map(({ epoch, pnode, address, replica }) => ({ epoch: Number(epoch), pnode, address, replica }))
        .sort((a, b) => a.replica - b.replica);
      known.vnodes.set(vnode, next);
    }
    if ([...known.vnodes].some(([vnode, next]) => before.get(vnode)?.[0]?.epoch !== next[0]?.epoch))
      this.onMoved(session);
  }

  forget(session: SessionId): void {
    this.#sessions.delete(session);
  }

  /** Asks again in the background; many requests at once become one. */
  refresh(session: SessionId): void {
    if (this.#refreshing.has(session) || this.#signal.aborted) return;
    this.#refreshing.add(session);
    this.#tasks.run(`resolve session ${session}`, async () => {
      try {
        const request = { session, vnodes: [] };
        const answer = await this.#orchestrators.call(PNodeService.method.resolve, request, this.#signal, 4);
        this.update(session, answer.locations, answer.revision);
        this.onLine(session, Number(answer.line), Number(answer.turn));
        await sleep(this.#world.timers, refreshPauseMs, this.#signal);
      } catch {
        // Whoever still needs it asks again.
      } finally {
        this.#refreshing.delete(session);
      }
    });
  }
}
