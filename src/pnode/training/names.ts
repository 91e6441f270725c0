// Message names between the wire's form and the process's. What comes from outside is checked here.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { fail } from "../../core/errors.ts";
import type { EdgeId } from "../../core/ids.ts";
import {
  Direction,
  type MessageNameSchema,
  type MessageName as ProtoName,
} from "../../protocol/gen/dcnr/v1/common_pb.ts";
import type { MessageName } from "../../vnode/names.ts";

export function toProtoName(session: string, name: MessageName): MessageInitShape<typeof MessageNameSchema> {
  return {
    session,
    step: BigInt(name.step),
    microbatch: name.microbatch,
    edge: name.edge,
    direction: name.direction === "forward" ? Direction.FORWARD : Direction.BACKWARD,
  };
}

export function fromProtoName(name: ProtoName | undefined): { session: string; name: MessageName } {
  if (name === undefined) fail("invalid_argument", "a tensor came without a name");
  if (name.step > BigInt(Number.MAX_SAFE_INTEGER)) fail("invalid_argument", `step ${name.step} is not a step`);
  if (name.direction !== Direction.FORWARD && name.direction !== Direction.BACKWARD)
    fail("invalid_argument", `a message on edge ${name.edge.slice(0, 80)} has no direction`);
  const direction = name.direction === Direction.FORWARD ? "forward" : "backward";
  const { microbatch, edge } = name;
  return { session: name.session, name: { step: Number(name.step), microbatch, edge: edge as EdgeId, direction } };
}

/** Who sent a tensor, as processes remember it for evidence. */
export function toSource(pnode: string, epoch: number): string {
  return `${epoch} ${pnode}`;
}

export function fromSource(source: string): { pnode: string; epoch: bigint } {
  const [epoch = "0", ...pnode] = source.split(" ");
  return { pnode: pnode.join(" "), epoch: BigInt(epoch) };
}
