// Answers one call on a pipe, of whatever kind its method is: what all ways to carry calls have in common.

import type { DescMessage, DescMethod, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { DcnrError, fail } from "../../core/errors.ts";
import type { CallContext, Channel } from "../network.ts";
import type { Pipe } from "./pipe.ts";

type Out = MessageInitShape<DescMessage>;
type In = MessageShape<DescMessage>;
type UnaryHandler = (request: In, context: CallContext) => Promise<Out>;
type ServerStreamHandler = (request: In, context: CallContext) => AsyncIterable<Out>;
type BidiHandler = (channel: Channel<Out, In>, context: CallContext) => Promise<void>;

/** Resolves when the handler is done. `close`: the handler wants the stream to end well. */
export function answerCall(
  { methodKind }: DescMethod,
  handler: unknown,
  pipe: Pipe,
  context: CallContext,
  close: () => void,
): Promise<void> {
  switch (methodKind) {
    case "bidi_streaming": {
      const channel = { send: (message: Out) => pipe.send(message), incoming: pipe, close };
      return (handler as BidiHandler)(channel, context);
    }
    case "server_streaming":
      return answerOne(pipe, handler as ServerStreamHandler, context);
    case "unary":
      return answerOne(pipe, unary(handler as UnaryHandler), context);
    case "client_streaming":
      return fail("internal", "client streaming is not used: it works in no browser");
  }
}

const unary = (handler: UnaryHandler): ServerStreamHandler =>
  async function* (request, context) {
    yield await handler(request, context);
  };

async function answerOne(pipe: Pipe, handler: ServerStreamHandler, context: CallContext): Promise<void> {
  const first = await pipe.next();
  if (first.done) throw new DcnrError("invalid_argument", "the request has no message");
  for await (const answer of handler(first.value, context)) await pipe.send(answer);
}
