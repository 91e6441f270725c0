// What an orchestrator knows of one PNode that attached to it, what may happen to that, and what it then does. How it
// decides is in standing-step.ts.

import type { Patience } from "../../../core/patience.ts";
import type { LogLevel } from "../../../core/world.ts";
import type { PNodeStatus } from "../../records/machines.ts";
import type { Timings } from "../../timings.ts";
import type { Measured, RecordChange } from "./record-changes.ts";

/** One attachment, from its registration until nothing is left to decide about it. */
export interface Standing {
  /** Names the attachment in the PNode's record: what is still said of an earlier one is void. */
  readonly nonce: string;
  readonly incarnation: string;
  readonly phase: Phase;
  readonly lastSeenMs: number;
  /** How long it may be silent, by its own record. */
  readonly patience: Patience;
  readonly latencyMs: number;
  /** Streams on which its process says that it lives, beside the one by which it attached. */
  readonly pulses: number;
  /** Silent for so long that those who would follow it prepare. */
  readonly inDoubt: boolean;
  /** Time online that its record does not hold yet began then. */
  readonly onlineSinceMs: number;
  /** Being written: a second write of the same kind could overtake the first. */
  readonly writing: { readonly return: boolean; readonly hours: boolean };
  /** What it has told of its machine and is not in its record yet; `waiting` is written after what is being written. */
  readonly measured: { readonly isWriting: boolean; readonly waiting: Measured | undefined };
}

export type Phase =
  | { readonly kind: "online" }
  | { readonly kind: "leaving" }
  /** All that it hosted was handed over, and its record says so. */
  | { readonly kind: "left" }
  /** Its stream broke: it has a moment to come back, or to be through with leaving. */
  | { readonly kind: "suspect"; readonly sinceMs: number; readonly lostAtMs: number; readonly wasLeaving: boolean }
  /** Given up; its record is about to say so. */
  | { readonly kind: "lost"; readonly sinceMs: number; readonly reason: string };

/** What the PNode's record says, as far as this orchestrator has read it. */
export interface Recorded {
  readonly attachment: string;
  /** This orchestrator has written it and has not made the attachment yet. */
  readonly isBeingMade: boolean;
  readonly orchestrator: string;
  readonly status: PNodeStatus;
  readonly closed: boolean;
}

export type StandingEvent =
  | {
      readonly kind: "registered";
      readonly nonce: string;
      readonly incarnation: string;
      /** How long it is waited for at first, if an earlier attachment taught that. */
      readonly patienceMs: number | undefined;
    }
  | {
      readonly kind: "heartbeat";
      readonly nonce: string;
      readonly accepting: boolean;
      readonly latencyMs: number;
      readonly recorded: Recorded | undefined;
    }
  | { readonly kind: "pulseBegan" | "pulse" | "pulseEnded"; readonly nonce: string }
  | { readonly kind: "measured"; readonly nonce: string; readonly measured: Measured }
  | { readonly kind: "leave"; readonly nonce: string; readonly reason: string }
  /** Its stream ended, from whichever side. */
  | { readonly kind: "broken"; readonly nonce: string }
  | { readonly kind: "graceOver"; readonly nonce: string; readonly lostAtMs: number }
  /** Nobody listens any more where it was reached. */
  | { readonly kind: "gone"; readonly nonce: string }
  /** Whoever operates the network has sent it away. */
  | { readonly kind: "revoked" }
  /** Somebody looks who is silent, and stood still itself for a while before. */
  | { readonly kind: "looked"; readonly stoodStillMs: number }
  /** Its record changed: here, or at another orchestrator. */
  | { readonly kind: "recorded"; readonly recorded: Recorded }
  | { readonly kind: "handedOver"; readonly nonce: string }
  | { readonly kind: "written"; readonly nonce: string; readonly change: RecordChange; readonly changed: boolean }
  | { readonly kind: "notWritten"; readonly nonce: string; readonly change: RecordChange }
  | { readonly kind: "retry"; readonly nonce: string; readonly change: RecordChange }
  /** Saves how long it was online, if that was long enough. */
  | { readonly kind: "uptime"; readonly leastMs: number };

export type StandingEffect =
  /** Tells people; the sentence begins with the PNode's name. */
  | { readonly kind: "say"; readonly level: LogLevel; readonly event: string; readonly words: string }
  | { readonly kind: "log"; readonly words: string }
  /** Leads to `written` or `notWritten`. */
  | { readonly kind: "write"; readonly nonce: string; readonly change: RecordChange }
  | { readonly kind: "later"; readonly afterMs: number; readonly event: StandingEvent }
  /** Looks whether its process is still there; leads to `gone`, or to nothing. */
  | { readonly kind: "dial"; readonly nonce: string }
  /** Others may prepare to take over. */
  | { readonly kind: "doubt" }
  /** Placement may have something to do; urgently, if VNodes stand still or must move. */
  | { readonly kind: "fleetChanged"; readonly urgent: boolean }
  /** Moves all that it hosts; leads to `handedOver`. */
  | { readonly kind: "handOver"; readonly nonce: string }
  | { readonly kind: "grantLeave"; readonly nonce: string }
  /** Ends the stream and forgets the attachment. */
  | { readonly kind: "close"; readonly nonce: string };

export interface Decided {
  /** Undefined once nothing is attached any more. */
  readonly standing: Standing | undefined;
  readonly effects: readonly StandingEffect[];
}

export type Rules = Pick<Timings, "heartbeatIntervalMs" | "silentMs" | "graceMs">;
