// Calls to simulated machines that nobody can connect to: through the production's relays, in the production's frames and with its
// credits per stream. Only the seal is simulated: nobody in these worlds forges, so each end just says who it is.

import type { DescMethod } from "@bufbuild/protobuf";
import { DcnrError, messageOf } from "../../src/core/errors.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { limitsDefault } from "../../src/protocol/connections/connection-limits.ts";
import { GrpcClient } from "../../src/protocol/grpc-client.ts";
import type { CallContext, Caller, Channel, Gate, Network, ServedService } from "../../src/protocol/network.ts";
import { keyOf, withoutKey } from "../../src/protocol/routes/address.ts";
import { dialThrough, type Line } from "../../src/protocol/routes/line.ts";
import { parseRoute } from "../../src/protocol/routes/routes.ts";
import { guestLimitsDefault } from "../../src/protocol/server/limits.ts";
import { Answering } from "../../src/protocol/socket/answering.ts";
import { Calling } from "../../src/protocol/socket/calling.ts";
import type { Fabric } from "./network.ts";
import type { Host } from "./world.ts";

/** What an end of a line says of itself. */
interface Hello {
  readonly id: KeyId | undefined;
  readonly host: string;
  /** For the checkers: a request may outlive the process that sent it. */
  readonly incarnation: number;
}

const encodeHello = (hello: Hello) => new TextEncoder().encode(JSON.stringify(hello));
const decodeHello = (bytes: Uint8Array) => JSON.parse(new TextDecoder().decode(bytes)) as Hello;

/** The calling end, for one host. */
export function callsByRelay(host: Host, id: KeyId | undefined, network: Pick<Network, "open">): GrpcClient {
  const { timers } = host.world;
  const calling = new Calling({
    timers,
    limits: limitsDefault,
    connect: async (address, signal) => {
      const route = parseRoute(withoutKey(address));
      if (route.kind !== "relayed") throw new DcnrError("invalid_argument", `${address} leads by no relay`);
      const line = dialThrough(network, route, { signal });
      const messages = line.incoming[Symbol.asyncIterator]();
      try {
        await line.send(encodeHello({ id, host: host.name, incarnation: host.incarnation }));
        const first = await messages.next();
        if (first.done) throw new DcnrError("unavailable", "the other end left before the line was sealed");
        if (decodeHello(first.value).id !== keyOf(address))
          throw new DcnrError("unauthenticated", "who answers is not who should");
      } catch (error) {
        line.close();
        throw error;
      }
      return { ...line, incoming: { [Symbol.asyncIterator]: () => messages } };
    },
  });
  return new GrpcClient(
    (address, method, headers, signal) => calling.openStream(address, method, headers, signal),
    {},
    timers,
  );
}

/** The answering end of a line that somebody carries to a server. */
export async function answerOnLine(
  { fabric, host, id }: { readonly fabric: Fabric; readonly host: Host; readonly id: KeyId | undefined },
  { services, gate }: { readonly services: readonly ServedService[]; readonly gate: Gate | undefined },
  line: Line,
  from: string,
): Promise<void> {
  const { timers, log } = host.world;
  const messages = line.incoming[Symbol.asyncIterator]();
  try {
    const first = await messages.next();
    if (first.done) return;
    const hello = decodeHello(first.value);
    await line.send(encodeHello({ id, host: host.name, incarnation: host.incarnation }));
    const observed = services.map((served) => observedBy(fabric, host, served, hello));
    const caller: Caller = { address: from, ...(hello.id !== undefined && { id: hello.id }) };
    new Answering(observed, { timers, limits: guestLimitsDefault, log, gate }).serve(
      { ...line, incoming: { [Symbol.asyncIterator]: () => messages } },
      caller,
    );
  } catch (error) {
    log("debug", `a call from ${from} came to nothing: ${messageOf(error)}`);
    line.close();
  }
}

/** Checkers see, and mutants change, what is said on lines as on any other wire. */
function observedBy(fabric: Fabric, host: Host, served: ServedService, by: Hello): ServedService {
  const handlers: Record<string, unknown> = {};
  for (const method of served.descriptor.methods) {
    const handler = served.handlers[method.localName];
    if (typeof handler === "function") handlers[method.localName] = observe(fabric, host, method, handler as never, by);
  }
  return { descriptor: served.descriptor, handlers };
}

type Handler = (request: unknown, context: CallContext) => unknown;

function observe(fabric: Fabric, host: Host, method: DescMethod, handler: Handler, by: Hello): Handler {
  const { time } = host.simulated;
  const taken = (context: CallContext, request: unknown): CallContext => ({
    ...context,
    caller: fabric.mistake(context.caller, method, request),
  });
  switch (method.methodKind) {
    case "unary":
      return async (request, context) => {
        const askedMs = time.nowMs;
        const response = (await handler(request, taken(context, request))) as object;
        const { host: caller, incarnation } = by;
        fabric.onAnswer({
          ...{ method, request, response, caller, incarnation, server: host.name },
          ...{ sentMs: askedMs, askedMs },
        });
        return fabric.said(method, "output", response);
      };
    case "server_streaming":
      return async function* (request, context) {
        for await (const message of handler(request, taken(context, request)) as AsyncIterable<object>)
          yield fabric.said(method, "output", message);
      };
    default:
      return (channel, context) => {
        const inner = channel as Channel<object, unknown>;
        const send = (message: object) => inner.send(fabric.said(method, "output", message));
        return handler({ ...inner, incoming: inner.incoming, send }, taken(context, undefined));
      };
  }
}
