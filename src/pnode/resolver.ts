// Where VNodes are now: pushed by orchestrators, cached, asked for when a peer turns out to have moved. Wrong
// answers cost time, never correctness.

import type { VNodeId, WorkloadId } from "../core/ids.ts";
import type { Tasks } from "../core/tasks.ts";
import { sleep, type World } from "../core/world.ts";
import type { Ownership } from "../peer/receiving.ts";
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
  readonly #workloads = new Map<WorkloadId, Known>();
  /** Resolve with the answer; some time passes until the next question. */
  readonly #refreshing = new Map<WorkloadId, Promise<void>>();
  /** Hears of the line that came with an answer. */
  onLine: (workload: WorkloadId, line: number, turn: number) => void = () => {};
  /** Hears when some VNode of a workload has another owner than before. */
  onMoved: (workload: WorkloadId) => void = () => {};

  constructor(orchestrators: Orchestrators, world: World, tasks: Tasks, signal: AbortSignal) {
    this.#orchestrators = orchestrators;
    this.#world = world;
    this.#tasks = tasks;
    this.#signal = signal;
  }

  /** All owners of a VNode, the primary first; empty if nobody is known. */
  locate(workload: WorkloadId, vnode: VNodeId): readonly Location[] {
    const found = this.#workloads.get(workload)?.vnodes.get(vnode);
    if (found === undefined) this.refresh(workload);
    return found ?? [];
  }

  /**
   * Whether `pnode` speaks for a VNode. Whoever names a newer epoch than is known here may be its next owner or a liar:
   * orchestrators are asked, and until they have answered nobody is believed.
   */
  ownership(workload: WorkloadId, vnode: VNodeId, pnode: string, epoch: number): Ownership {
    const known = this.#workloads.get(workload)?.vnodes.get(vnode) ?? [];
    if (known.some((location) => location.pnode === pnode)) return "owner";
    if (known.some((location) => epoch <= location.epoch)) return "other";
    this.refresh(workload);
    return "unknown";
  }

  /** True if `pnode` owns anything of a workload as far as is known here. */
  ownsAny(workload: WorkloadId, pnode: string): boolean {
    const known = this.#workloads.get(workload)?.vnodes.values() ?? [];
    return [...known].some((locations) => locations.some((location) => location.pnode === pnode));
  }

  /** True if `pnode` owns anything of any workload that is known here; orchestrators are asked before it is denied. */
  async isPeer(pnode: string): Promise<boolean> {
    const owns = () => this.owners().some((location) => location.pnode === pnode);
    if (owns()) return true;
    await Promise.all(Array.from(this.#workloads.keys(), (workload) => this.refresh(workload)));
    return owns();
  }

  /** Everybody who owns something as far as is known here. */
  *owners(): Generator<Location> {
    for (const { vnodes } of this.#workloads.values()) for (const locations of vnodes.values()) yield* locations;
  }

  update(workload: WorkloadId, locations: readonly ProtoLocation[], revision: bigint): void {
    const known = this.#workloads.get(workload) ?? { revision: -1n, vnodes: new Map() };
    this.#workloads.set(workload, known);
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
      this.onMoved(workload);
  }

  forget(workload: WorkloadId): void {
    this.#workloads.delete(workload);
  }

  /** Asks again in the background; many requests at once become one. Resolves when there is an answer, or none to be had. */
  refresh(workload: WorkloadId): Promise<void> {
    const asked = this.#refreshing.get(workload);
    if (asked !== undefined || this.#signal.aborted) return asked ?? Promise.resolve();
    const asking = this.#ask(workload);
    this.#refreshing.set(workload, asking);
    this.#tasks.run(`resolve ${workload}`, async () => {
      await asking;
      await sleep(this.#world.timers, refreshPauseMs, this.#signal).catch(() => {});
      this.#refreshing.delete(workload);
    });
    return asking;
  }

  async #ask(workload: WorkloadId): Promise<void> {
    try {
      const request = { session: workload, vnodes: [] };
      const answer = await this.#orchestrators.call(PNodeService.method.resolve, request, this.#signal, 4);
      this.update(workload, answer.locations, answer.revision);
      this.onLine(workload, Number(answer.line), Number(answer.turn));
    } catch {
      // Whoever still needs it asks again.
    }
  }
}
