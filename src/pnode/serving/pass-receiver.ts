// The receiving end of passes: a tensor is judged by its announcement, before memory is taken for it.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { elementCount, tensorBytes } from "../../core/tensor.ts";
import type { PassesRequest, PassesResponse, PassesResponseSchema } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { Channel } from "../../protocol/network.ts";
import { isFiniteWire, type WireTensor } from "../../vnode/wire.ts";
import { fromDataType } from "../names.ts";
import type { Pass, PassTarget } from "./pass.ts";

export interface PassSink {
  /** The most elements that a tensor for this port may have; fails if the port does not exist here. */
  elementsMax(target: PassTarget, pass: Pass): number;
  accept(target: PassTarget, pass: Pass, tensor: WireTensor): void;
  /** A pass of a conductor here cannot be finished. */
  lost(session: string, pass: number): void;
}

const rowsMax = 64;
const droppedMax = 4_096;

interface Assembly {
  readonly target: PassTarget;
  readonly pass: Pass;
  readonly tensor: WireTensor;
  filled: number;
}

export async function receivePasses(
  channel: Channel<MessageInitShape<typeof PassesResponseSchema>, PassesRequest>,
  sink: PassSink,
): Promise<void> {
  let assembly: Assembly | undefined;
  for await (const message of channel.incoming) {
    try {
      if (message.lost) {
        sink.lost(message.session, Number(message.pass?.id ?? 0n));
        continue;
      }
      if (message.pass) assembly = announce(message, sink);
      if (!assembly) continue;
      const { tensor } = assembly;
      if (assembly.filled + message.data.byteLength > tensor.bytes.byteLength)
        fail("invalid_argument", `more than the ${tensor.bytes.byteLength} bytes announced`);
      tensor.bytes.set(message.data, assembly.filled);
      assembly.filled += message.data.byteLength;
      if (message.more) continue;
      if (assembly.filled !== tensor.bytes.byteLength) fail("invalid_argument", "fewer bytes than announced");
      if (!isFiniteWire(tensor)) fail("invalid_argument", "the tensor holds NaN or infinity");
      sink.accept(assembly.target, assembly.pass, tensor);
      assembly = undefined;
    } catch (error) {
      if (!(error instanceof DcnrError)) throw error;
      const session = assembly?.target.session ?? message.session;
      const pass = BigInt(assembly?.pass.id ?? 0) || (message.pass?.id ?? 0n);
      assembly = undefined;
      await channel.send({ session, pass, refusal: messageOf(error) } satisfies Partial<PassesResponse>);
    }
  }
}

function announce(message: PassesRequest, sink: PassSink): Assembly {
  const target = { session: message.session, vnode: message.to, port: message.port };
  const pass = fromProtoPass(message);
  const dtype = fromDataType(message.dtype);
  if (dtype === undefined) fail("invalid_argument", "a tensor of a pass has an unknown type");
  const elements = elementCount(message.shape);
  if (!(elements <= sink.elementsMax(target, pass)))
    fail("invalid_argument", `[${message.shape}] is more than ${target.port} takes`);
  const bytes = tensorBytes(dtype, message.shape);
  if (message.bytes !== BigInt(bytes))
    fail("invalid_argument", `[${message.shape}] has ${bytes} bytes, not ${message.bytes}`);
  return { target, pass, tensor: { dtype, shape: message.shape, bytes: new Uint8Array(bytes) }, filled: 0 };
}

function fromProtoPass({ pass }: PassesRequest): Pass {
  if (!pass) fail("invalid_argument", "a tensor came without its pass");
  if (pass.rows.length > rowsMax || pass.dropped.length > droppedMax)
    fail("invalid_argument", "a pass has too many rows");
  return {
    id: Number(pass.id),
    conductor: pass.conductor,
    rows: pass.rows.map(({ request, position, tokens, ghost }) => ({ request, position, tokens, ghost })),
    plain: pass.plain,
    dropped: pass.dropped,
  };
}
