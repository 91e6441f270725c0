// Strangers who want a server's memory, descriptors and attention: over real sockets, from an address of their own on
// loopback. What counts is that each is refused or let go, and that an honest call is answered while they try.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, type Settings } from "node:http2";
import { connect, type Socket } from "node:net";
import { describe, it } from "node:test";
import { toBinary } from "@bufbuild/protobuf";
import { DcnrError } from "../../src/core/errors.ts";
import { ManualTimers } from "../../src/protocol/connections/timers.testing.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { Health, HealthCheckRequestSchema } from "../../src/protocol/gen/grpc/health/v1/health_pb.ts";
import { openGrpcNetwork } from "../../src/protocol/grpc.ts";
import { type Gate, type HttpHandler, service } from "../../src/protocol/network.ts";
import { healthService } from "../../src/protocol/server/health.ts";
import { type GuestLimits, guestLimitsDefault } from "../../src/protocol/server/limits.ts";

const attacker = "127.0.0.2";
const honest = "127.0.0.3";

interface Scene {
  readonly timers: ManualTimers;
  /** Opens connections as the attacker does, each having said so much. */
  flood(count: number, bytes: string): Promise<Socket[]>;
  /** An HTTP/2 connection from this address. */
  session(from: string, settings?: Settings): ClientHttp2Session;
  /** An honest call from another address is answered. */
  answered(): Promise<void>;
  /** How many calls reached a handler. */
  readonly handled: { calls: number; streams: number };
}

async function scene(run: (scene: Scene) => Promise<void>, limits: Partial<GuestLimits> = {}, gate?: Gate) {
  const timers = new ManualTimers();
  const network = openGrpcNetwork({ timers, guestLimits: limits });
  const handled = { calls: 0, streams: 0 };
  const never = async () => assert.fail("not asked for here");
  const health = healthService(() => true, timers);
  const check = health.handlers["check"] as () => Promise<object>;
  const counted = {
    ...health,
    handlers: {
      ...health.handlers,
      check: async () => {
        handled.calls++;
        return check();
      },
    },
  };
  const machines = service(PNodeService, {
    attach: async ({ incoming }) => {
      handled.streams++;
      for await (const _ of incoming) break;
      await new Promise(() => {});
    },
    ...{
      pulse: never,
      resolve: never,
      recordDurable: never,
      describeSession: never,
      grantBlob: never,
      measureLine: never,
    },
  });
  const server = await network.serve("127.0.0.1:0", [counted, machines], page, gate);
  const [host, port] = server.address.split(":") as [string, string];
  const sockets: Socket[] = [];
  const dial = (localAddress: string) => {
    const socket = connect({ host, port: Number(port), localAddress });
    socket.on("error", () => {});
    sockets.push(socket);
    return socket;
  };
  const session = (from: string, settings: Settings = {}) => {
    const opened = connectHttp2(`http://${server.address}`, { settings, createConnection: () => dial(from) });
    opened.on("error", () => {});
    return opened;
  };
  try {
    await run({
      timers,
      handled,
      session,
      flood: async (count, bytes) => {
        const opened: Socket[] = [];
        // No more at once than the kernel keeps for one that has not accepted them yet: the rest would hang in the air.
        while (opened.length < count) {
          const some = Array.from({ length: Math.min(100, count - opened.length) }, () => dial(attacker));
          await Promise.all(some.map((socket) => once(socket, "connect")));
          await settled();
          opened.push(...some);
        }
        for (const socket of opened) {
          socket.resume();
          socket.write(bytes);
        }
        await settled();
        return opened;
      },
      answered: async () => {
        const mine = session(honest);
        assert.deepEqual(await called(mine), { status: "0" });
        mine.destroy();
      },
    });
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.close();
    await network.close();
  }
}

const page: HttpHandler = async (request) => {
  if (new URL(request.url).pathname === "/waits") await new Promise(() => {});
  return new Response("page");
};

const grpc = { ":method": "POST", "content-type": "application/grpc+proto", te: "trailers" };
const checkPath = "/grpc.health.v1.Health/Check";
const attachPath = "/dcnr.v1.PNodeService/Attach";

function frame(content: Uint8Array, claimed = content.byteLength): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(claimed, 1);
  return Buffer.concat([prefix, content]);
}

/** How a stream ended: gRPC's status, or the error of HTTP/2. */
function outcome(stream: ClientHttp2Stream): Promise<{ status?: string; failed?: boolean }> {
  stream.resume();
  return new Promise((resolve) => {
    const told = (headers: Record<string, unknown>) => {
      if (headers["grpc-status"] !== undefined) resolve({ status: String(headers["grpc-status"]) });
      else if (Number(headers[":status"] ?? 200) !== 200) resolve({ status: `HTTP ${headers[":status"]}` });
    };
    stream.on("response", told);
    stream.on("trailers", told);
    stream.on("error", () => resolve({ failed: true }));
    stream.on("close", () => resolve({ failed: true }));
  });
}

function called(session: ClientHttp2Session): Promise<{ status?: string; failed?: boolean }> {
  const stream = session.request({ ...grpc, ":path": checkPath });
  const ended = outcome(stream);
  stream.end(frame(toBinary(HealthCheckRequestSchema, { $typeName: Health.method.check.input.typeName, service: "" })));
  return ended;
}

const tooMuch = "8";

describe("L: a flood of connections", () => {
  it("that say nothing, 1,500 of them: an address gets its share, others are answered, and time lets all of them go", () =>
    scene(async ({ flood, answered, timers }) => {
      const sockets = await flood(1_500, "");
      await until(() => sockets.filter((socket) => !socket.closed).length <= guestLimitsDefault.connectionsPerAddress);
      await answered();
      timers.advance(guestLimitsDefault.prefaceMs);
      await Promise.all(sockets.map((socket) => socket.closed || once(socket, "close")));
      await answered();
    }));

  it("that send their headers a byte at a time: no byte buys more time", () =>
    scene(async ({ flood, answered, timers }) => {
      const sockets = await flood(300, "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n");
      const closed = Promise.all(sockets.map((socket) => once(socket, "close")));
      for (let passed = 0; passed < 10; passed++) {
        for (const socket of sockets) socket.write("x");
        await settled();
        await answered();
        timers.advance(guestLimitsDefault.headersMs / 10);
      }
      await closed;
    }));

  it("of many addresses, beyond what is borne in all: those that ask for nothing make room for those that ask", () =>
    scene(
      async ({ flood, answered, session }) => {
        const working = session(honest);
        assert.deepEqual(await called(working), { status: "0" });
        const sockets = await flood(100, "");
        await answered();
        assert.deepEqual(await called(working), { status: "0" }, "one that has asked before stays");
        await until(() => sockets.filter((socket) => !socket.closed).length <= 20);
      },
      { connectionsMax: 20, connectionsPerAddress: 1_000 },
    ));

  it("that have not asked yet: the oldest go", () =>
    scene(
      async ({ flood, answered }) => {
        const [first] = await flood(1, "");
        const sockets = await flood(30, "GET");
        await answered();
        await until(() => first?.closed === true);
        await until(() => sockets.filter((socket) => !socket.closed).length <= 20);
      },
      { unprovenMax: 20 },
    ));
});

describe("K: a flood on one connection", () => {
  it("of streams that never end is refused beyond an address's share, and again open once they end", () =>
    scene(
      async ({ session, answered, handled }) => {
        const flooding = session(attacker);
        await once(flooding, "remoteSettings");
        assert.equal(flooding.remoteSettings.maxConcurrentStreams, 80);
        const streams = Array.from({ length: 70 }, () => flooding.request({ ...grpc, ":path": attachPath }));
        const outcomes = streams.map(outcome);
        const refused = await Promise.all(outcomes.slice(50));
        assert.deepEqual(new Set(refused.map(({ status }) => status)), new Set([tooMuch]));
        assert.equal(handled.streams, 50);
        await answered();
        for (const stream of streams) stream.close();
        await settled();
        assert.deepEqual(await called(flooding), { status: "0" });
      },
      { streamsPerConnection: 80, requestsPerAddress: 50 },
    ));

  it("of messages that never end: no more bytes are taken than are borne, and others are answered", () =>
    scene(
      async ({ session, answered, handled, timers }) => {
        const sessions = Array.from({ length: 6 }, () => session(attacker));
        const big = frame(new Uint8Array(1 << 20), 2 << 20);
        const outcomes = sessions.flatMap((one) =>
          Array.from({ length: 5 }, (_, index) => {
            const path = index % 2 ? attachPath : checkPath;
            const stream = one.request({ ...grpc, ":path": path });
            stream.write(big);
            return outcome(stream);
          }),
        );
        let refused = 0;
        for (const one of outcomes) void one.then(({ status }) => status === tooMuch && refused++);
        // 30 MiB are sent, 8 are borne: at least 22 are turned away.
        await until(() => refused >= 22);
        await answered();
        assert.equal(handled.calls, 1, "the honest one");
        timers.advance(guestLimitsDefault.callMs);
        const calls = await Promise.all(outcomes.filter((_, index) => (index % 5) % 2 === 0));
        assert.equal(calls.length, 18, "and calls that never came whole have ended");
      },
      { bytesPerAddress: 8 << 20 },
    ));

  it("of bodies that nobody reads, behind answers that nobody takes: no more is kept than is borne", () =>
    scene(
      async ({ session, answered }) => {
        for (const authority of ["127.0.0.1", "evil.example"]) {
          const greedy = session(attacker, { initialWindowSize: 0 });
          const open = Array.from({ length: 16 }, () => {
            const stream = greedy.request({ ":path": "/", ":authority": authority }, { endStream: false });
            stream.on("error", () => {});
            stream.write(Buffer.alloc(256 << 10));
            return stream;
          });
          // What was refused is not kept; of the rest, whoever is above its share ends.
          if (authority === "127.0.0.1") await until(() => open.filter(({ closed }) => !closed).length <= 4);
          await answered();
          greedy.destroy();
        }
      },
      { bytesPerAddress: 1 << 20 },
    ));

  it("of bodies over HTTP/1.1 that nobody reads yet: no more is kept than is borne", () =>
    scene(
      async ({ flood, answered }) => {
        const head = "POST /waits HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000\r\n\r\n";
        const sockets = await flood(32, head + "x".repeat(256 << 10));
        await until(() => sockets.filter(({ closed }) => !closed).length <= 16);
        await answered();
      },
      { bytesPerAddress: 1 << 20 },
    ));

  it("of registrations is refused beyond what a minute allows, however soon each ends", () =>
    scene(
      async ({ session, handled, timers }) => {
        const register = async (from: ClientHttp2Session) => {
          const stream = from.request({ ...grpc, ":path": attachPath });
          const ended = outcome(stream);
          stream.write(frame(new Uint8Array(0)));
          await settled();
          stream.close();
          return ended;
        };
        const flooding = session(attacker);
        for (let i = 0; i < 40; i++) await register(flooding);
        assert.equal(handled.streams, 25);
        await register(session(honest));
        assert.equal(handled.streams, 26);
        timers.advance(60_000);
        await register(session(attacker));
        assert.equal(handled.streams, 27);
      },
      { rarePerMinuteAndAddress: 25 },
    ));

  it("of headers, too many or too long, is refused over both HTTP versions", () =>
    scene(async ({ session, flood, answered, handled }) => {
      const long = { "x-long": "a".repeat(60_000) };
      const many = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`x-${i}`, "a"]));
      for (const headers of [long, many]) {
        const flooding = session(attacker);
        const stream = flooding.request({ ...grpc, ":path": checkPath, ...headers });
        assert.notEqual((await outcome(stream)).status, "0");
        flooding.destroy();
      }
      const [socket] = await flood(1, `GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-long: ${"a".repeat(60_000)}\r\n\r\n`);
      await until(() => socket?.closed === true);
      assert.equal(handled.calls, 0);
      await answered();
    }));
});

describe("a caller without rights", () => {
  const refusing = async () => {
    throw new DcnrError("permission_denied", "not you");
  };
  const gate: Gate = { key: refusing, member: refusing, orchestrator: refusing, network: refusing };

  it("is refused before anything of its message is read", () =>
    scene(
      async ({ session, handled, answered }) => {
        const stream = session(attacker).request({ ...grpc, ":path": "/dcnr.v1.PNodeService/GrantBlob" });
        // The claim of a message alone: a server that read first would wait for the rest.
        stream.write(frame(new Uint8Array(0), 4 << 20));
        assert.equal((await outcome(stream)).status, "16");
        const attaching = session(attacker).request({ ...grpc, ":path": attachPath });
        attaching.write(frame(new Uint8Array(0), 4 << 20));
        assert.equal((await outcome(attaching)).status, "16");
        assert.deepEqual(handled, { calls: 0, streams: 0 });
        await answered();
      },
      {},
      gate,
    ));
});

/** Until what is on its way between sockets of this machine has arrived. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** The test's own time-out ends a wait in vain. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await settled();
}
