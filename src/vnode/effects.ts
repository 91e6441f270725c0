// The vocabulary between the deterministic process and its host: what happened, and what is to be done.

import type { EdgeId, VNodeId } from "../core/ids.ts";
import type { ToldRound } from "../network/rounds.ts";
import type { Counted } from "./book.ts";
import type { MessageName, Sealed } from "./names.ts";
import type { Outgoing } from "./outbox.ts";

export type Mode = "training" | "evaluation";

/** Content by port name. */
export type ByPort<Payload> = ReadonlyMap<string, Payload>;

export interface PortGradient<Payload> {
  readonly edge: EdgeId;
  readonly port: string;
  readonly payload: Payload;
}

/** Numbers measured in one forward pass, such as the loss. */
export type Measures = Readonly<Record<string, number>>;

export type ProcessEvent<Payload, Asker> =
  | { readonly kind: "start" }
  | {
      readonly kind: "arrived";
      readonly name: MessageName;
      readonly hash: string;
      /** Absent where the host has only its name: then it is never stored. */
      readonly payload?: Payload;
      /** Who sent it, for evidence. */
      readonly from: string;
      /** What the sender signed, where it did. */
      readonly proof?: Proof | undefined;
    }
  | {
      readonly kind: "forwardDone";
      readonly step: number;
      readonly microbatch: number;
      /** By output port. */
      readonly outputs: ByPort<Sealed<Payload>>;
      readonly measures: Measures;
    }
  | {
      readonly kind: "backwardDone";
      readonly step: number;
      readonly microbatch: number;
      /** By input port, for those that need one. */
      readonly gradients: ByPort<Sealed<Payload>>;
    }
  | { readonly kind: "weightsShared"; readonly step: number; readonly weights: ByPort<Sealed<Payload>> }
  | { readonly kind: "tieGradientsDone"; readonly step: number; readonly gradients: ByPort<Sealed<Payload>> }
  /** This copy's part of each shard that others add up, by their lanes. */
  | { readonly kind: "partsDone"; readonly step: number; readonly parts: ByPort<Sealed<Payload>> }
  /** The sum of all copies' parts of the shard that is added up here. */
  | { readonly kind: "sumDone"; readonly step: number; readonly sum: Sealed<Payload> }
  /** The round has ended: the common state has this hash. */
  | { readonly kind: "outerDone"; readonly step: number; readonly hash: string }
  | { readonly kind: "updateDone"; readonly step: number; readonly hash: string; readonly measures: Measures }
  /** What is known of rounds: plans, and whose work counts. */
  | { readonly kind: "rounds"; readonly rounds: readonly ToldRound[] }
  | { readonly kind: "persisted"; readonly step: number }
  | { readonly kind: "lineAdvanced"; readonly line: number }
  /** What is checked now: told before the line that would let go of what that needs. */
  | { readonly kind: "drawn"; readonly drawn: readonly Drawn[] }
  | { readonly kind: "asked"; readonly names: readonly MessageName[]; readonly asker: Asker }
  /** A neighbour has collected what was asked of it for this step. */
  | { readonly kind: "gone"; readonly step: number }
  /** Inputs have been missing for a while; how long is the host's business. */
  | { readonly kind: "overdue" }
  /** Retained messages have reached their bound, or no longer. */
  | { readonly kind: "full"; readonly full: boolean }
  /** How many microbatches may be between forward and backward, where the way to others asks for more than the plan. */
  | { readonly kind: "window"; readonly microbatches: number }
  /** A suspended session starts no new work. */
  | { readonly kind: "pause"; readonly paused: boolean }
  | { readonly kind: "failed"; readonly reason: string };

export type Effect<Payload, Asker> =
  | {
      readonly kind: "forward";
      readonly step: number;
      readonly microbatch: number;
      readonly mode: Mode;
      /** Which of the session's microbatches it is, in rounds. */
      readonly sample?: number | undefined;
      /** By input port; tied weights included. */
      readonly inputs: ByPort<Payload>;
    }
  | {
      readonly kind: "backward";
      readonly step: number;
      readonly microbatch: number;
      /** In edge order, which is the order in which gradients of one port are added. */
      readonly gradients: readonly PortGradient<Payload>[];
    }
  /** Adds the gradients of one microbatch to the accumulator. */
  | { readonly kind: "accumulate"; readonly step: number; readonly microbatch: number }
  | { readonly kind: "shareWeights"; readonly step: number }
  | { readonly kind: "computeTieGradients"; readonly step: number }
  /** Cuts the gradient of the step, or what the round has taught, into what each lane adds up. */
  | {
      readonly kind: "reduceParts";
      readonly step: number;
      readonly of: "reduce" | "outer";
      readonly ties: readonly PortGradient<Payload>[];
      /** At a round's end, whose work counts. */
      readonly counted: readonly Counted[];
    }
  /** Adds up one shard; the own part is at hand. In lane order. */
  | {
      readonly kind: "reduceSum";
      readonly step: number;
      readonly of: "reduce" | "outer";
      readonly parts: readonly PortGradient<Payload>[];
      readonly counted: readonly Counted[];
    }
  /** Ends a round: all lanes go on from what they have learned together. */
  | {
      readonly kind: "outer";
      readonly step: number;
      readonly sums: readonly PortGradient<Payload>[];
      readonly counted: readonly Counted[];
    }
  /** A step of a round in which others learn: nothing changes but its number. */
  | { readonly kind: "rest"; readonly step: number }
  | {
      readonly kind: "update";
      readonly step: number;
      readonly ties: readonly PortGradient<Payload>[];
      /** Of the shards that other copies added up; with them, `ties` are in already. */
      readonly sums: readonly PortGradient<Payload>[];
    }
  /** To all owners of the receiver. */
  | { readonly kind: "send"; readonly message: Outgoing<Payload> }
  /** To one who asked. */
  | { readonly kind: "deliver"; readonly message: Outgoing<Payload>; readonly asker: Asker }
  /** To be stored for whoever repeats what its receiver did. */
  | { readonly kind: "lock"; readonly messages: readonly Outgoing<Payload>[] }
  | { readonly kind: "answer"; readonly asker: Asker; readonly step: number; readonly outcome: "coming" | "gone" }
  | { readonly kind: "ask"; readonly whom: VNodeId; readonly names: readonly MessageName[] }
  | { readonly kind: "receipt"; readonly verdict: Verdict }
  | { readonly kind: "evidence"; readonly name: MessageName; readonly first: Witness; readonly second: Witness }
  | { readonly kind: "persist"; readonly step: number }
  /** The state after `step` updates has this hash. */
  | { readonly kind: "publish"; readonly step: number; readonly hash: string; readonly measures: Measures }
  | { readonly kind: "publishEvaluation"; readonly step: number; readonly measures: Measures }
  | { readonly kind: "collect"; readonly below: number; readonly released: readonly Payload[] }
  /** The messages it needs are gone: the host loads the state of a newer line. */
  | { readonly kind: "restart" }
  | { readonly kind: "done" }
  | { readonly kind: "fail"; readonly reason: string };

/** An interval of a VNode that is checked. */
export interface Drawn {
  readonly vnode: VNodeId;
  readonly from: number;
  readonly to: number;
}

/** The sender's signature under a message (trust/delivery.ts), its key and the life in which it was computed; base64. */
export interface Proof {
  readonly life: string;
  readonly signature: string;
  readonly publicKey: string;
}

export type Verdict = "stored" | "dropped" | "wait" | "refused";

export interface Witness {
  readonly from: string;
  readonly hash: string;
}
