// The receiving end of passes: a tensor is judged by its announcement, before memory is taken for it.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { type Shape, sameShape, tensorBytes } from "../../core/tensor.ts";
import type { PassesRequest, PassesResponse, PassesResponseSchema } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { Channel } from "../../protocol/network.ts";
import { isFiniteWire, type WireTensor } from "../../vnode/wire.ts";
import { fromDataType } from "../names.ts";
import { type LostPass, type Pass, type PassTarget, rowsMax } from "./pass.ts";

export interface PassSink {
  /** The shape that a tensor for this port must have; fails if the port does not exist here. */
  shapeOf(target: PassTarget, pass: Pass, samples: number): Shape;
  accept(target: PassTarget, pass: Pass, tensor: WireTensor): void;
  /** A pass of a conductor here cannot be finished. */
  lost(lost: LostPass): void;
}

const droppedMax = 4_096;
const failureLengthMax = 1_000;

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
        const { session, failure } = message;
        sink.lost({ session, pass: fromProtoPass(message), failure: failure.slice(0, failureLengthMax) });
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
  const expected = sink.shapeOf(target, pass, message.shape[0] ?? 0);
  if (!sameShape(message.shape, expected))
    fail("invalid_argument", `${target.port} takes [${expected}] here, not [${message.shape}]`);
  const bytes = tensorBytes(dtype, message.shape);
  if (message.bytes !== BigInt(bytes))
    fail("invalid_argument", `[${message.shape}] has ${bytes} bytes, not ${message.bytes}`);
  return { target, pass, tensor: { dtype, shape: message.shape, bytes: new Uint8Array(bytes) }, filled: 0 };
}

function fromProtoPass({ pass }: PassesRequest): Pass {
  if (!pass) fail("invalid_argument", "a tensor came without its pass");
  if (pass.rows.length > rowsMax || pass.dropped.length > droppedMax)
    fail("invalid_argument", "a pass has too many rows");
  const tokens = pass.rows[0]?.tokens ?? 1;
  if (tokens < 1 || pass.rows.some((row) => row.tokens !== tokens))
    fail("invalid_argument", "the rows of a pass differ in their tokens");
  return {
    id: Number(pass.id),
    conductor: pass.conductor,
    epoch: Number(pass.epoch),
    attempt: pass.attempt,
    rows: pass.rows.map(({ request, position, tokens, ghost }) => ({ request, position, tokens, ghost })),
    plain: pass.plain,
    dropped: pass.dropped,
  };
}
