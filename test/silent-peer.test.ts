// A peer whose machine loses its power says nothing any more, not even that it is gone. Whoever has a stream to it
// notices, and lives on.

import assert from "node:assert/strict";
import { connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { hasCode } from "../src/core/errors.ts";
import { ExchangeService, Verdict } from "../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { openGrpcNetwork } from "../src/protocol/grpc.ts";
import { service } from "../src/protocol/network.ts";
import { backgroundTimers } from "../src/system/timers.ts";

/** Carries bytes until it is told to swallow them. */
async function wire(to: string): Promise<{ address: string; cut: () => void; close: () => void }> {
  const [host, port] = to.split(":") as [string, string];
  const sockets = new Set<Socket>();
  let whole = true;
  const server = createServer((near) => {
    const far = connect(Number(port), host);
    for (const [from, into] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("data", (bytes) => whole && into.write(bytes));
      from.on("error", () => {});
      from.on("close", () => whole && into.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port: own } = server.address() as { port: number };
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return {
    address: `127.0.0.1:${own}`,
    cut: () => {
      whole = false;
    },
    close,
  };
}

test("a peer that falls silent breaks its streams, and nothing else", async () => {
  const network = openGrpcNetwork({ timers: backgroundTimers });
  const server = await network.serve("127.0.0.1:0", [
    service(ExchangeService, {
      exchange: async (channel) => {
        for await (const _ of channel.incoming)
          await channel.send({ event: { case: "receipt", value: { id: 1n, verdict: Verdict.STORED } } });
      },
    }),
  ]);
  const { address, cut, close } = await wire(server.address);
  const uncaught: unknown[] = [];
  const note = (error: unknown) => uncaught.push(error);
  process.on("uncaughtException", note);
  try {
    const streams = Array.from({ length: 3 }, () => network.open(address, ExchangeService.method.exchange));
    const readers = streams.map((stream) => stream.incoming[Symbol.asyncIterator]());
    for (const stream of streams) await stream.send({ event: { case: "hello", value: { protocolMajor: 1 } } });
    for (const reader of readers) assert.equal((await reader.next()).value?.event.case, "receipt");
    cut();
    streams[2]?.close();
    await Promise.all(
      readers.slice(0, 2).map(async (reader) => {
        await assert.rejects(
          () => reader.next(),
          (error) => hasCode(error, "unavailable"),
        );
        // At once, while the broken connection is still on its way out.
        network.open(address, ExchangeService.method.exchange).close();
      }),
    );
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.deepEqual(uncaught, []);
  } finally {
    process.off("uncaughtException", note);
    close();
    await network.close();
    await server.close();
  }
});
