// Broken ways between processes.

import { fail } from "../../src/core/errors.ts";
import { AskOutcome, ExchangeService, Verdict } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { RelayService } from "../../src/protocol/gen/dcnr/v1/relay_pb.ts";
import type { Channel, Network } from "../../src/protocol/network.ts";
import { isRelayed } from "../../src/protocol/routes/routes.ts";

type Said = { readonly event?: { readonly case?: string; readonly value?: { readonly id?: bigint } } };

/** Of a machine's routes only its own address is used, as if there were no relays. */
export function ownAddressesOnly(inner: Network): Network {
  const direct = (address: string) => {
    const [routes = "", ...key] = address.split("#");
    const [first = ""] = routes.split(",").filter((route) => !isRelayed(route));
    return [first, ...key].join("#");
  };
  return {
    id: inner.id,
    call: (address, method, request, options) => inner.call(direct(address), method, request, options),
    watch: (address, method, request, options) => inner.watch(direct(address), method, request, options),
    open: (address, method, options) => inner.open(direct(address), method, options),
    serve: (address, services, http, gate) => inner.serve(address, services, http, gate),
    close: () => inner.close(),
  };
}

/** Waits for calls at each relay once: when that has crashed and is back, nobody can call by it any more. */
export function waitsAtRelaysOnce(inner: Network): Network {
  const waited = new Set<string>();
  return {
    id: inner.id,
    call: (address, method, request, options) => inner.call(address, method, request, options),
    watch: (address, method, request, options) => inner.watch(address, method, request, options),
    serve: (address, services, http, gate) => inner.serve(address, services, http, gate),
    close: () => inner.close(),
    open: (address, method, options) => {
      const isWaiting = (method as object) === RelayService.method.reserve;
      if (isWaiting && waited.has(address)) fail("unavailable", "it is not tried again");
      if (isWaiting) waited.add(address);
      return inner.open(address, method, options);
    },
  };
}

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
