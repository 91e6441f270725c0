// Broken ways between processes.

import { AskOutcome, ExchangeService, Verdict } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import type { Channel, Network } from "../../src/protocol/network.ts";

type Said = { readonly event?: { readonly case?: string; readonly value?: { readonly id?: bigint } } };

/** Whatever a link says is answered before it has gone anywhere, so that nobody notices that it does not get there. */
export function answersItself(inner: Network): Network {
  return {
    id: inner.id,
    call: (address, method, request, options) => inner.call(address, method, request, options),
    watch: (address, method, request, options) => inner.watch(address, method, request, options),
    serve: (address, services, http, gate) => inner.serve(address, services, http, gate),
    close: () => inner.close(),
    open: (address, method, options) => {
      const channel = inner.open(address, method, options);
      const isLink = (method as object) === ExchangeService.method.exchange;
      return isLink ? (answering(channel as Channel<unknown, unknown>) as typeof channel) : channel;
    },
  };
}

function answering(channel: Channel<unknown, unknown>): Channel<unknown, unknown> {
  const answers: unknown[] = [];
  let wake = () => {};
  let ended = false;
  let failure: unknown;
  // What the peer says is not needed, but that the stream ends is.
  const read = async () => {
    try {
      for await (const _ of channel.incoming);
    } catch (error) {
      failure = error;
    }
    ended = true;
    wake();
  };
  void read();
  return {
    // As if all of it had been taken.
    send: async (message) => {
      if (ended) throw failure ?? new Error("the stream has ended");
      channel.send(message).catch(() => {});
      const answer = answerTo(message as Said);
      if (answer === undefined) return;
      answers.push(answer);
      wake();
    },
    close: () => channel.close(),
    incoming: {
      async *[Symbol.asyncIterator]() {
        for (;;) {
          yield* answers.splice(0);
          if (ended && failure !== undefined) throw failure;
          if (ended) return;
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      },
    },
  };
}

function answerTo({ event }: Said): object | undefined {
  const id = event?.value?.id;
  switch (event?.case) {
    case "ping":
      return { event: { case: "pong", value: { id } } };
    case "ask":
      return { event: { case: "answer", value: { id, outcome: AskOutcome.COMING } } };
    case "delivery":
      return { event: { case: "receipt", value: { id, verdict: Verdict.STORED, detail: "" } } };
    default:
      return undefined;
  }
}
