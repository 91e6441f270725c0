// Bytes both ways between two machines that cannot call each other, carried by somebody else: a relay, a tunnel. Whoever
// carries them is not trusted: connections on a line prove both ends' keys and encrypt, as on any other wire.

import { DcnrError } from "../../core/errors.ts";
import { RelayService } from "../gen/dcnr/v1/relay_pb.ts";
import type { CallOptions, Channel, Network } from "../network.ts";
import { withKey } from "./address.ts";
import type { RelayedRoute } from "./routes.ts";

export type Line = Channel<Uint8Array, Uint8Array>;

/** A line to the machine that waits at a relay. */
export function dialThrough(network: Pick<Network, "open">, route: RelayedRoute, options?: CallOptions): Line {
  const relay = withKey(route.address, route.relay);
  const channel = network.open(relay, RelayService.method.dial, options);
  const dialled = channel.send({ event: { case: "target", value: route.target } });
  // Reading tells why.
  dialled.catch(() => {});
  return {
    send: async (data) => {
      await dialled;
      return channel.send({ event: { case: "data", value: data } });
    },
    incoming: dataOf(channel.incoming),
    close: () => channel.close(),
  };
}

/** The other end of one, by the ticket of which the relay has told. `by`: who calls, as the relay says. */
export async function answerRing(
  network: Pick<Network, "open">,
  relay: string,
  ticket: string,
  signal?: AbortSignal,
): Promise<{ readonly line: Line; readonly by: string }> {
  const channel = network.open(relay, RelayService.method.answer, signal && { signal });
  try {
    await channel.send({ event: { case: "ticket", value: ticket } });
    const frames = channel.incoming[Symbol.asyncIterator]();
    const first = await frames.next();
    if (first.done || first.value.event.case !== "called")
      throw new DcnrError("unavailable", "the caller is gone before it was answered");
    const line: Line = {
      send: (data) => channel.send({ event: { case: "data", value: data } }),
      incoming: dataOf({ [Symbol.asyncIterator]: () => frames }),
      close: () => channel.close(),
    };
    return { line, by: first.value.event.value.by };
  } catch (error) {
    channel.close();
    throw error;
  }
}

interface Frame {
  readonly event: { readonly case: "data"; readonly value: Uint8Array } | { readonly case: string | undefined };
}

async function* dataOf(frames: AsyncIterable<Frame>): AsyncGenerator<Uint8Array> {
  for await (const { event } of frames) if (event.case === "data" && "value" in event) yield event.value;
}
