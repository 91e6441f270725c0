// What the exchange needs of a hosted VNode: to be told about tensors and asks, and to judge them.

import type { SessionId, VNodeId } from "../../core/ids.ts";
import type { WireType } from "../../core/numbers/wire-types.ts";
import type { Shape } from "../../core/tensor.ts";
import type { Proof, Verdict } from "../../vnode/effects.ts";
import type { Admission } from "../../vnode/inbox.ts";
import type { MessageName } from "../../vnode/names.ts";
import type { Outgoing } from "../../vnode/outbox.ts";
import type { MessageMemory } from "../../vnode/wire.ts";
import type { StoredTensor } from "./retention.ts";

export type OutgoingTensor = Outgoing<StoredTensor>;

/** One who asked for messages; both may be called at any later time, or never. */
export interface Asker {
  answer(outcome: "coming" | "gone"): void;
  deliver(message: OutgoingTensor): void;
}

export interface Arrival {
  readonly name: MessageName;
  readonly hash: string;
  /** Absent where nothing but the name came, because nobody wanted more. */
  readonly tensor?: StoredTensor | undefined;
  /** Who sent it, for evidence. */
  readonly from: string;
  readonly proof?: Proof | undefined;
}

export interface Receiver {
  /** Under which epoch its PNode owns it. */
  readonly epoch: number;
  /** Names its present life where what it sends is signed; undefined elsewhere, and while it loads. */
  readonly life: string | undefined;
  /** False while it has no state: it knows nothing then, and will ask by itself. */
  readonly isRunning: boolean;
  /** Where the bytes of messages go, so that whoever computes with them finds them there; undefined while it loads. */
  readonly memory: MessageMemory | undefined;
  /** What passes between it and those that share its weights is left out of what it states; undefined until it begins. */
  readonly isSilent: boolean | undefined;
  /** Messages from other machines are taken only if they are signed. */
  readonly needsProof: boolean;
  /** What the plan says about a message to this VNode; undefined if there is no such message. */
  expects(name: MessageName): { readonly wire: WireType; readonly shape: Shape; readonly from: VNodeId } | undefined;
  /** What would become of a message: asked before memory is taken for it. */
  admit(name: MessageName, hash: string): Admission;
  /**
   * What became of it, as the process itself says; undefined if that comes later, because the process is in the middle
   * of something, or never. From here on the tensor is the receiver's.
   */
  receive(arrival: Arrival): Verdict | undefined;
  /** Of a message that is wanted and whose bytes have not come: what becomes of it without them; undefined if they are needed. */
  hears(arrival: Arrival): Verdict | undefined;
  asked(names: readonly MessageName[], asker: Asker): void;
}

export interface Directory {
  find(session: SessionId, vnode: VNodeId): Receiver | undefined;
}
