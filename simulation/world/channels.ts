// Messages over one end of a simulated stream, as production code reads and sends them.

import type { Channel } from "../../src/protocol/network.ts";
import type { SimulatedStream, StreamEnd } from "./stream.ts";

export function channelOf<Out extends object, In>(
  stream: SimulatedStream,
  end: StreamEnd,
  encodeOut: (message: Out) => Uint8Array,
  decodeIn: (bytes: Uint8Array) => In,
): Channel<Out, In> {
  return {
    send: async (message) => {
      const bytes = encodeOut(message);
      stream.note(end, message);
      return stream.send(end, bytes);
    },
    incoming: incomingOf(stream, end, decodeIn),
    close: () => stream.close(end),
  };
}

export function incomingOf<In>(
  stream: SimulatedStream,
  end: StreamEnd,
  decode: (bytes: Uint8Array) => In,
): AsyncIterable<In> {
  const iterator: AsyncIterator<In> = {
    next: async () => {
      const result = await end.inbox.next();
      return result.done ? { done: true, value: undefined } : { done: false, value: decode(result.value) };
    },
    // A reader that stops early gives the stream up.
    return: async () => {
      stream.close(end);
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}
