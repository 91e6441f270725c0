import assert from "node:assert/strict";
import { connect } from "node:http2";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { DcnrError, hasCode } from "../core/errors.ts";
import { backgroundTimers } from "../system/timers.ts";
import { ExchangeRequestSchema, ExchangeService } from "./gen/dcnr/v1/exchange_pb.ts";
import { FleetService } from "./gen/dcnr/v1/fleet_pb.ts";
import { InferenceService } from "./gen/dcnr/v1/inference_pb.ts";
import { SystemService } from "./gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "./grpc.ts";
import { type CallContext, type HttpHandler, type Server, service } from "./network.ts";
import { isRefused } from "./streams/wire-errors.ts";

const system = service(SystemService, {
  getVersion: async () => ({ software: "test", role: "orchestrator" }),
  getHealth: async (_, { header }) => {
    if (header("x-final")) throw verdict;
    throw new DcnrError("failed_precondition", "the store sleeps: wake it");
  },
});

/** Says of a failure that would usually pass that it does not. */
const verdict = new DcnrError("unavailable", "never again", { outlook: "final" });

/** Echoes pings as pongs until told to break. */
const exchange = service(ExchangeService, {
  exchange: async (channel) => {
    for await (const { event } of channel.incoming) {
      if (event.case === "ping") await channel.send({ event: { case: "pong", value: { id: event.value.id } } });
      if (event.case === "hello" && event.value.protocolMajor === 99) throw verdict;
      if (event.case === "hello") throw new DcnrError("permission_denied", "no greetings here");
    }
  },
});

async function withServer(
  run: (server: Server, network: ReturnType<typeof openGrpcNetwork>) => Promise<void>,
  http?: HttpHandler,
) {
  const network = openGrpcNetwork({ timers: backgroundTimers });
  const server = await network.serve("127.0.0.1:0", [system, exchange], http);
  try {
    await run(server, network);
  } finally {
    await network.close();
    await server.close();
  }
}

test("a unary call carries its answer, and an expected failure with code and sentence", () =>
  withServer(async ({ address }, network) => {
    const version = await network.call(address, SystemService.method.getVersion, {});
    assert.equal(version.software, "test");
    await assert.rejects(network.call(address, SystemService.method.getHealth, {}), (error) => {
      assert.ok(hasCode(error, "failed_precondition"));
      assert.equal((error as Error).message, "the store sleeps: wake it");
      return true;
    });
  }));

test("a bidirectional stream carries large messages both ways and ends when closed", () =>
  withServer(async ({ address }, network) => {
    const channel = network.open(address, ExchangeService.method.exchange);
    const payload = new Uint8Array(1 << 20).fill(7);
    const seen: bigint[] = [];
    const reading = (async () => {
      for await (const { event } of channel.incoming) {
        if (event.case === "pong") seen.push(event.value.id);
        if (seen.length === 20) channel.close();
      }
    })();
    for (let id = 0n; id < 20n; id++) await channel.send({ event: { case: "ping", value: { id, payload } } });
    await reading;
    assert.deepEqual(
      seen,
      Array.from({ length: 20 }, (_, id) => BigInt(id)),
    );
  }));

test("a stream that the server refuses breaks for readers and senders, with the reason", () =>
  withServer(async ({ address }, network) => {
    const channel = network.open(address, ExchangeService.method.exchange);
    await channel.send({ event: { case: "hello", value: { protocolMajor: 1 } } });
    await assert.rejects(
      (async () => {
        for await (const _ of channel.incoming);
      })(),
      (error) => hasCode(error, "permission_denied"),
    );
    await assert.rejects(channel.send({ event: { case: "ping", value: {} } }));
  }));

test("what trying again is worth crosses the wire", () =>
  withServer(async ({ address }, network) => {
    const own = openGrpcNetwork({ timers: backgroundTimers, headers: { "x-final": "yes" } });
    const isFinal = (error: unknown) => error instanceof DcnrError && error.outlook === "final";
    await assert.rejects(own.call(address, SystemService.method.getHealth, {}), isFinal);
    await own.close();
    const channel = network.open(address, ExchangeService.method.exchange);
    await channel.send({ event: { case: "hello", value: { protocolMajor: 99 } } });
    await assert.rejects(channel.incoming[Symbol.asyncIterator]().next(), isFinal);
  }));

test("streams work with peers that use a gRPC library of their own", () =>
  withServer(async ({ address }) => {
    const client = createClient(ExchangeService, createGrpcTransport({ baseUrl: `http://${address}` }));
    const seen: bigint[] = [];
    const payload = new Uint8Array(100_000);
    const pings = async function* () {
      for (let id = 0n; id < 3n; id++) yield { event: { case: "ping" as const, value: { id, payload } } };
    };
    for await (const { event } of client.exchange(pings())) if (event.case === "pong") seen.push(event.value.id);
    assert.deepEqual(seen, [0n, 1n, 2n]);
    const greeting = async function* () {
      yield { event: { case: "hello" as const, value: { protocolMajor: 1 } } };
    };
    await assert.rejects(
      (async () => {
        for await (const _ of client.exchange(greeting()));
      })(),
      /permission_denied.*no greetings here/,
    );
  }));

test("a stream to a server that goes away breaks", () =>
  withServer(async (server, network) => {
    const channel = network.open(server.address, ExchangeService.method.exchange);
    await channel.send({ event: { case: "ping", value: { id: 1n } } });
    await assert.rejects(
      (async () => {
        for await (const _ of channel.incoming) await server.close();
      })(),
      (error) => error instanceof DcnrError,
    );
  }));

test("an address where nobody listens is named in the error", async () => {
  const network = openGrpcNetwork({ timers: backgroundTimers });
  await assert.rejects(network.call("127.0.0.1:1", SystemService.method.getVersion, {}), (error) => {
    assert.ok(hasCode(error, "unavailable"));
    assert.match((error as Error).message, /nothing answers at 127\.0\.0\.1:1/);
    assert.ok(isRefused(error), "and known as a refusal");
    return true;
  });
  await network.close();
});

test("a port in use is named in the error", () =>
  withServer(async ({ address }, network) => {
    await assert.rejects(network.serve(address, [system]), /port \d+ on 127\.0\.0\.1 is in use/);
  }));

test("a message above the limit is refused", () =>
  withServer(async ({ address }, network) => {
    const channel = network.open(address, ExchangeService.method.exchange);
    const huge = create(ExchangeRequestSchema, {
      event: { case: "ping", value: { payload: new Uint8Array(5 << 20) } },
    });
    channel.send(huge).catch(() => {});
    await assert.rejects(
      (async () => {
        for await (const _ of channel.incoming);
      })(),
      (error) => hasCode(error, "resource_exhausted"),
    );
  }));

test("a service that is not served answers unimplemented", () =>
  withServer(async ({ address }, network) => {
    await assert.rejects(network.call(address, FleetService.method.getStatus, {}), (error) =>
      hasCode(error, "unimplemented"),
    );
  }));

test("the same port speaks HTTP/1.1 for Connect-JSON and for plain pages", () =>
  withServer(
    async ({ address }) => {
      const json = await fetch(`http://${address}/dcnr.v1.SystemService/GetVersion`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
      });
      assert.equal(((await json.json()) as { software: string }).software, "test");
      const page = await fetch(`http://${address}/hello`);
      assert.equal(await page.text(), "GET /hello");
      const missing = await fetch(`http://${address}/nothing`);
      assert.equal(missing.status, 404);
    },
    async (request) => {
      const { pathname } = new URL(request.url);
      return pathname === "/hello" ? new Response(`${request.method} ${pathname}`) : undefined;
    },
  ));

test("the same port speaks HTTP/2 for plain pages, with wide windows", () =>
  withServer(
    async ({ address }) => {
      const session = connect(`http://${address}`);
      const stream = session.request({ ":path": "/hello" });
      const body: Buffer[] = [];
      for await (const chunk of stream) body.push(chunk as Buffer);
      assert.equal(Buffer.concat(body).toString(), "hello");
      assert.equal(session.remoteSettings.initialWindowSize, 16 << 20);
      session.close();
    },
    async () => new Response("hello"),
  ));

test("a request that names another host, or comes from another page, changes nothing", () =>
  withServer(async ({ address }) => {
    const { request } = await import("node:http");
    const post = (headers: Record<string, string>) =>
      new Promise<number>((resolve) => {
        const [host, port] = address.split(":");
        const sent = request(
          {
            host,
            port,
            method: "POST",
            path: "/dcnr.v1.SystemService/GetVersion",
            headers: { "content-type": "application/json", ...headers },
          },
          (response) => {
            response.resume();
            resolve(response.statusCode ?? 0);
          },
        );
        sent.end("{}");
      });
    assert.equal(await post({}), 200);
    assert.equal(await post({ host: "evil.example" }), 403);
    assert.equal(await post({ origin: "http://evil.example" }), 403);
    assert.equal(await post({ origin: `http://${address}` }), 200);
  }));

test("a reader that leaves a stream early goes on at once, and the server hears of it", async () => {
  const heard = Promise.withResolvers<void>();
  const others = InferenceService.methods.map(({ localName }) => [localName, async () => ({})]);
  const handlers = {
    ...Object.fromEntries(others),
    generate: async function* (_: unknown, { signal }: CallContext) {
      signal.addEventListener("abort", () => heard.resolve());
      for (let i = 0; i < 3; i++) yield { tokens: [i] };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
  };
  const endless = { descriptor: InferenceService, handlers };
  const network = openGrpcNetwork({ timers: backgroundTimers });
  const server = await network.serve("127.0.0.1:0", [endless]);
  try {
    for await (const _ of network.watch(server.address, InferenceService.method.generate, {})) break;
    await heard.promise;
  } finally {
    await network.close();
    await server.close();
  }
});
