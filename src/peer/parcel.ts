// What one PNode hands to another: a tensor under a label that says what it is to its receiver. The transport carries
// labels without reading them; the protocols on top (exchange for training, passes for serving) make and judge them.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { DeliverySchema } from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import type { Content } from "./travel-types.ts";

type DeliveryFields = MessageInitShape<typeof DeliverySchema>;

/** Exactly one of them. */
export type Label = Pick<DeliveryFields, "name" | "pass">;

/** Who says so, where what is under a name has to be signed. */
export type SenderProof = Pick<DeliveryFields, "life" | "signature" | "publicKey">;

/** A tensor in the sender's hands: its bytes stay as they are until `release`. */
export interface Opened {
  readonly content: Content;
  /** SHA-256 by core/hash.ts `hashOfContent`. */
  readonly hash: string;
  readonly proof?: SenderProof;
  release(): void;
}

export interface Parcel {
  readonly label: Label;
  /** The VNodes at both ends, and the epoch under which the sender owns its one. */
  readonly from: string;
  readonly to: string;
  readonly epoch: number;
  /** What has the same key is the same parcel: while one is on its way, a second is not sent. */
  readonly key: string;
  /** Somebody waits for every microsecond of it: it overtakes what is not urgent, even in the middle. */
  readonly urgent: boolean;
  /** Called when its turn has come. Rejects if nobody needs it any more. */
  open(): Promise<Opened>;
}

/**
 * What became of a parcel. `dropped`: the receiver had it, or needs it no more. `wait`: it will ask. `moved`: the VNode
 * is not there. `broken`: nobody knows.
 */
export type Outcome = "stored" | "dropped" | "wait" | "refused" | "moved" | "broken";
