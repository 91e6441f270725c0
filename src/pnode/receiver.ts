// What the exchange needs of a hosted VNode: to be told about tensors and asks, and to judge them first.

import type { SessionId, VNodeId } from "../core/ids.ts";
import type { Shape } from "../core/tensor.ts";
import type { WireType } from "../network/plan.ts";
import type { Admission } from "../vnode/inbox.ts";
import type { MessageName } from "../vnode/names.ts";
import type { Outgoing } from "../vnode/outbox.ts";
import type { StoredTensor } from "./retention.ts";

export type OutgoingTensor = Outgoing<StoredTensor>;

/** One who asked for messages; both may be called at any later time, or never. */
export interface Asker {
  answer(outcome: "coming" | "gone"): void;
  deliver(message: OutgoingTensor): void;
}

export interface Receiver {
  /** What the plan says about a message to this VNode; undefined if there is no such message. */
  expects(name: MessageName): { readonly wire: WireType; readonly shape: Shape; readonly from: VNodeId } | undefined;
  /** "loading": it has no state yet and will ask by itself. */
  admit(name: MessageName, hash: string): Admission | "loading";
  /** Also for a contradiction, which needs no content. */
  receive(name: MessageName, hash: string, tensor: StoredTensor | undefined, from: string): void;
  asked(names: readonly MessageName[], asker: Asker): void;
}

export interface Directory {
  find(session: SessionId, vnode: VNodeId): Receiver | undefined;
}
