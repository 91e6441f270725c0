// What a crew needs of its PNode, and what the parts of one session's crew share: the state that all of them look at and change.

import type { Sha256, VNodeId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { World } from "../../core/world.ts";
import type { CrewRules, CrewState, CrewTimings } from "../../crew/crew.ts";
import type { Tenure, TenureOwner } from "../../crew/tenures.ts";
import type { Assignment } from "../assignment.ts";
import type { KeptStates } from "./kept-states.ts";
import type { CrewPeers, Peer } from "./peers.ts";

/** What the crew does to its PNode. */
export interface CrewHooks {
  /** What it trains of the session now. */
  hosted(): readonly Assignment[];
  /** The session's last step; undefined while nobody has said what the session is. */
  lastStep(): number | undefined;
  /** Whether there is room for a VNode that it does not host. */
  hasRoom(vnodes: readonly VNodeId[]): boolean;
  /** What a VNode takes at work, and so more than any state of it has; undefined while nobody has said what the session is. */
  memoryBytesOf(vnode: VNodeId): number | undefined;
  host(assignment: Assignment): void;
  /** Somebody else hosts it from now on. */
  giveUp(vnode: VNodeId): void;
  /** What it trains of the session begins anew where orchestrators say. */
  startOver(): void;
  /** The line has moved; every VNode's state there, where it is known. */
  onLine(line: number, turn: number, stateOf: (vnode: VNodeId) => Sha256 | "" | undefined): void;
  /** Who hosts what, and where. */
  onTenures(tenures: readonly Tenure[], routesOf: (pnode: string) => string): void;
}

export interface SessionCrewOptions {
  readonly self: TenureOwner;
  readonly world: World;
  readonly tasks: Tasks;
  readonly signal: AbortSignal;
  readonly timings: CrewTimings & { readonly tellMs: number; readonly aloneAtOnceMs: number };
  readonly rules: CrewRules;
  readonly kept: KeptStates;
  readonly peers: CrewPeers;
  /** Where peers reach this PNode. */
  readonly routes: () => string;
  /** When an orchestrator last said something to this PNode; undefined while it is attached to none. */
  readonly orchestratorHeardMs: () => number | undefined;
  /** Nobody listens any more where orchestrators were. */
  readonly nobodyListens: () => boolean;
  /** From the store, while an orchestrator is there. */
  readonly fetchStored: (
    session: string,
    hash: Sha256,
    room: (bytes: number) => Uint8Array,
    signal: AbortSignal,
  ) => Promise<Uint8Array>;
  readonly hooks: CrewHooks;
}

/** One session's crew, as its parts see it. */
export interface CrewCell {
  readonly options: SessionCrewOptions;
  readonly state: CrewState;
  readonly nowMs: number;
  readonly isStopped: boolean;
  /** No orchestrator has been heard for a while. */
  readonly isAlone: boolean;
  change(next: CrewState): void;
  /** Undefined while nobody knows where it is. */
  peer(pnode: string): Peer | undefined;
  /** Who may have a blob, the most likely first. */
  sources(hash: Sha256): Peer[];
  /** Resolves when the condition holds, or nobody waits any more. */
  until(condition: () => boolean, signal: AbortSignal): Promise<void>;
  log(level: "debug" | "info" | "warn" | "error", message: string): void;
}
