// What is known of machines that providers start, and what is decided about them.

import type { PNodeId } from "../core/ids.ts";
import type { Demand } from "./jobs.ts";
import type { ConstraintPolicy } from "./placement/constraints.ts";
import type { FleetNode } from "./placement/types.ts";

export interface ScaleOffer {
  readonly provider: string;
  readonly name: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /** Memory of each; 0 where nobody said. */
  readonly gpus: readonly number[];
  readonly pricePerHour: number;
  readonly region: string;
  /** How often an hour such a machine is taken away, as learned. */
  readonly lossPerHour: number;
  readonly bootMs: number;
  /** Of this offer at once. */
  readonly most: number;
}

export interface ScaleMachine {
  readonly id: string;
  readonly provider: string;
  readonly offer: string;
  readonly state: "coming" | "up" | "draining";
  readonly pricePerHour: number;
  /** Once it has joined. */
  readonly pnode?: PNodeId;
  /** How long it has had nothing to do; absent while it has something. */
  readonly idleMs?: number;
}

export interface ScaleProvider {
  readonly name: string;
  readonly least: number;
  readonly most: number;
  /** 0: no bound, in both. */
  readonly budgetPerHour: number;
  readonly budgetTotal: number;
  readonly spent: number;
  readonly idleMs: number;
  readonly coolDownMs: number;
  readonly sinceStartMs: number;
  /** It is to end: nothing is started, and all are sent away. */
  readonly isRemoving: boolean;
}

export interface WaitingWork {
  readonly id: string;
  readonly demand: Demand;
  readonly policy: ConstraintPolicy;
  /** Until it starts without anybody's help, as far as is known. */
  readonly expectedMs?: number;
}

export interface ScaleView {
  readonly nodes: readonly FleetNode[];
  readonly machines: readonly ScaleMachine[];
  readonly offers: readonly ScaleOffer[];
  readonly providers: readonly ScaleProvider[];
  /** In the order of the queue. */
  readonly waiting: readonly WaitingWork[];
}

export interface Scaled {
  readonly starts: readonly { readonly provider: string; readonly offer: string; readonly for: string }[];
  /** Machines whose work goes elsewhere, and which then end. */
  readonly drains: readonly { readonly machine: string; readonly why: string }[];
  /** Machines that were to end and are needed after all. */
  readonly keeps: readonly string[];
  /** Why nothing is fetched for work that waits. */
  readonly unmet: ReadonlyMap<string, string>;
}
