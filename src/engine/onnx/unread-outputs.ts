// onnxruntime-node writes outputs into the buffers it is given, and then copies each of them once more to hand it back: a
// second set of gradients for the garbage collector at every call. It hands outputs back one after the other and stops at
// the first that it cannot represent in JavaScript, so we put such an output in front. The results are in our buffers then.
// None of this is documented: native.ts tries it at every start, and does without where it fails.

import { joined } from "../../graph/protobuf-write.ts";

/** The name of the output in front: an empty sequence, which the library computes but cannot hand over. */
export const unreadOutput = "dcnr:unread";

const lengthDelimited = (field: number, content: readonly number[]) => [(field << 3) | 2, content.length, ...content];
const text = (field: number, value: string) => lengthDelimited(field, [...new TextEncoder().encode(value)]);

/** NodeProto {output, name, op_type} and ValueInfoProto {name, type: sequence of float tensors}: protobuf joins it with a model's graph. */
export function unreadFront(): Uint8Array {
  const node = [...text(2, unreadOutput), ...text(3, unreadOutput), ...text(4, "SequenceEmpty")];
  const floatTensor = lengthDelimited(1, [1 << 3, 1]);
  const sequence = lengthDelimited(4, lengthDelimited(1, floatTensor));
  const info = [...text(1, unreadOutput), ...lengthDelimited(2, sequence)];
  return Uint8Array.from(lengthDelimited(7, [...lengthDelimited(1, node), ...lengthDelimited(12, info)]));
}

/** The model with one more output in front. */
export function withUnreadOutput(model: Uint8Array): Uint8Array {
  return joined([unreadFront(), model], (bytes) => new Uint8Array(bytes));
}

/** How the library says that everything ran and only the handing over failed. */
export function isOnlyUnread(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.message.startsWith("Non tensor type is temporarily not supported");
}
