// Where VNodes are now: pushed by orchestrators, cached, asked for when a peer turns out to have moved. Wrong
// answers cost time, never correctness.

import type { VNodeId, WorkloadId } from "../core/ids.ts";
import type { Tasks } from "../core/tasks.ts";
import { sleep, type World } from "../core/world.ts";
import type { Ownership } from "../peer/receiving.ts";
import { PNodeService, type Location as ProtoLocation } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import { joinRoutes, type Routes } from "../protocol/routes/routes.ts";
import type { Orchestrators } from "./orchestrators.ts";
import { lineOf, type ToldLine } from "./told-line.ts";

export interface Location {
  readonly epoch: number;
  readonly pnode: string;
  readonly routes: Routes;
  readonly replica: number;
}

/** Who hosts a VNode by the word of its crew. */
interface CrewWord {
  readonly epoch: number;
  /** 0: an orchestrator's word, passed on. */
  readonly count: number;
  readonly locations: readonly Location[];
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
  /** Of sessions that go on without orchestrators: what is higher than an orchestrator's word counts instead of it. */
  readonly #crews = new Map<WorkloadId, ReadonlyMap<VNodeId, CrewWord>>();
  /** Resolve with the answer; some time passes until the next question. */
  readonly #refreshing = new Map<WorkloadId, Promise<void>>();
  /** Hears of the line that came with an answer. */
  onLine: (workload: WorkloadId, told: ToldLine) => void = () => {};
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
    const found = this.#known(workload, vnode) ?? [];
    if (found.length === 0) this.refresh(workload);
    return found;
  }

  /** An orchestrator's word, or the crew's if that is higher: a takeover is, within its epoch. */
  #known(workload: WorkloadId, vnode: VNodeId): readonly Location[] | undefined {
    const told = this.#workloads.get(workload)?.vnodes.get(vnode);
    const crew = this.#crews.get(workload)?.get(vnode);
    const epoch = told?.[0]?.epoch ?? -1;
    return crew !== undefined && (crew.epoch > epoch || (crew.epoch === epoch && crew.count > 0))
      ? crew.locations
      : told;
  }

  crewSays(workload: WorkloadId, words: ReadonlyMap<VNodeId, CrewWord> | undefined): void {
    if (words === undefined) this.#crews.delete(workload);
    else this.#crews.set(workload, words);
  }

  /**
   * Whether `pnode` speaks for a VNode. Whoever names a newer epoch than is known here may be its next owner or a liar:
   * orchestrators are asked, and until they have answered nobody is believed.
   */
  ownership(workload: WorkloadId, vnode: VNodeId, pnode: string, epoch: number): Ownership {
    const known = this.#known(workload, vnode) ?? [];
    if (known.some((location) => location.pnode === pnode)) return "owner";
    if (known.some((location) => epoch <= location.epoch)) return "other";
    this.refresh(workload);
    return "unknown";
  }

  /** True if `pnode` owns anything of a workload as far as is known here. */
  ownsAny(workload: WorkloadId, pnode: string): boolean {
    return this.#vnodesOf(workload).some((vnode) =>
      this.#known(workload, vnode)?.some((location) => location.pnode === pnode),
    );
  }

  #vnodesOf(workload: WorkloadId): VNodeId[] {
    const told = this.#workloads.get(workload)?.vnodes.keys() ?? [];
    return [...new Set([...told, ...(this.#crews.get(workload)?.keys() ?? [])])];
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
    for (const workload of new Set([...this.#workloads.keys(), ...this.#crews.keys()]))
      for (const vnode of this.#vnodesOf(workload)) yield* this.#known(workload, vnode) ?? [];
  }

  update(workload: WorkloadId, locations: readonly ProtoLocation[], revision: bigint): void {
    const known = this.#workloads.get(workload) ?? { revision: -1n, vnodes: new Map() };
    this.#workloads.set(workload, known);
    if (revision < known.revision) return;
    known.revision = revision;
    for (const { pnode, key } of locations) if (key !== "") this.#orchestrators.tellKey(pnode, key);
    const before = new Map(known.vnodes);
    // The list is whole: who is not in it is nowhere.
    known.vnodes.clear();
    for (const [vnode, places] of Map.groupBy(locations, (location) => location.vnode as VNodeId)) {
      const next = places
        .map(({ epoch, pnode, routes, replica }) => ({
          epoch: Number(epoch),
          pnode,
          routes: joinRoutes(routes),
          replica,
        }))
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
      this.onLine(workload, lineOf(answer));
    } catch {
      // Whoever still needs it asks again.
    }
  }
}
