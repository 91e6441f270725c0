import assert from "node:assert/strict";
import { Socket } from "node:net";
import { describe, it } from "node:test";
import { DcnrError, hasCode } from "../../core/errors.ts";
import { ExchangeService } from "../gen/dcnr/v1/exchange_pb.ts";
import { InferenceService } from "../gen/dcnr/v1/inference_pb.ts";
import { SystemService } from "../gen/dcnr/v1/system_pb.ts";
import { openGrpcNetwork } from "../grpc.ts";
import type { Network } from "../network.ts";
import { limitsDefault as limits } from "./connection-limits.ts";
import { within } from "./deadline.ts";
import { type FakeServer, type Misdeed, type Moment, startFakeServer } from "./fake-server.testing.ts";
import { ManualTimers } from "./timers.testing.ts";

interface Scene {
  readonly server: FakeServer;
  readonly network: Network;
  readonly timers: ManualTimers;
}

async function scene(
  misdeed: (moment: Moment, times: number, connection: number) => Misdeed | undefined,
  run: (scene: Scene) => Promise<void>,
): Promise<void> {
  const server = await startFakeServer(misdeed);
  const timers = new ManualTimers();
  const network = openGrpcNetwork({ timers });
  try {
    await run({ server, network, timers });
  } finally {
    await network.close();
    server.close();
  }
}

/** How each kind of call ends that is made to an address. */
function everyKind(network: Network, address: string): Promise<DcnrError>[] {
  const channel = network.open(address, ExchangeService.method.exchange);
  const kinds: Promise<unknown>[] = [
    network.call(address, SystemService.method.getVersion, {}, { timeoutMs: 3_600_000 }),
    network.watch(address, InferenceService.method.generate, {})[Symbol.asyncIterator]().next(),
    channel.incoming[Symbol.asyncIterator]().next(),
  ];
  channel.send({ event: { case: "ping", value: { id: 1n } } }).catch(() => {});
  return kinds.map((kind) =>
    kind.then(
      () => assert.fail("nothing was answered"),
      (error: unknown) => {
        assert.ok(error instanceof DcnrError);
        return error;
      },
    ),
  );
}

async function allUnavailable(failures: Promise<DcnrError>[]): Promise<void> {
  for (const { code, message } of await Promise.all(failures)) assert.equal(code, "unavailable", message);
}

describe("a connection that breaks fails everything on it at once", () => {
  const moments: readonly Moment[] = ["accepted", "greeted", "asked", "pinged"];
  for (const misdeed of ["close", "reset"] as const)
    for (const moment of moments)
      it(`${misdeed} when ${moment}`, () =>
        scene(
          (now) => (now === moment ? misdeed : undefined),
          async ({ server, network, timers }) => {
            const failures = everyKind(network, server.address);
            if (moment === "pinged") {
              await server.seen("asked", 3);
              await untilPinged(server, timers);
            }
            await allUnavailable(failures);
          },
        ));
});

describe("a connection that stalls fails everything on it within the deadline of its phase", () => {
  it("connect: nobody accepts", async () => {
    const timers = new ManualTimers();
    const neverConnected = () => Object.defineProperty(new Socket(), "connecting", { value: true });
    const network = openGrpcNetwork({ timers, dial: neverConnected });
    const failures = everyKind(network, "127.0.0.1:9");
    timers.advance(limits.connectMs);
    await allUnavailable(failures);
    assert.match((await failures[0])?.message ?? "", /cannot be connected to/);
    await network.close();
  });

  it("hello: it accepts and says nothing", () =>
    scene(
      (moment) => (moment === "accepted" ? "stall" : undefined),
      async ({ server, network, timers }) => {
        const failures = everyKind(network, server.address);
        await server.seen("greeted");
        timers.advance(limits.helloMs);
        await allUnavailable(failures);
        assert.match((await failures[0])?.message ?? "", /says nothing/);
      },
    ));

  it("first answer: it takes a stream and does not answer it, though it answers pings", () =>
    scene(
      (moment) => (moment === "asked" ? "ignore" : undefined),
      async ({ server, network, timers }) => {
        const [unary, ...streams] = everyKind(network, server.address);
        await server.seen("asked", 3);
        for (let passedMs = 0; passedMs < limits.answerMs; passedMs += 1_000) {
          await settled();
          timers.advance(1_000);
        }
        await allUnavailable(streams);
        // Unary calls have deadlines of their own, and may take long: this one ends with the connection.
        await network.close();
        assert.equal((await unary)?.code, "cancelled");
      },
    ));

  it("ping: it answers a stream and then falls silent", () =>
    scene(
      (moment) => (moment === "pinged" ? "stall" : undefined),
      async ({ server, network, timers }) => {
        const failures = everyKind(network, server.address);
        await server.seen("asked", 3);
        await untilPinged(server, timers);
        timers.advance(limits.pingMs);
        await allUnavailable(failures);
        assert.match((await failures[0])?.message ?? "", /answers no ping/);
      },
    ));

  it("a unary call fails when its own time is up, whatever the connection does", () =>
    scene(
      () => undefined,
      async ({ server, network, timers }) => {
        const call = network.call(server.address, SystemService.method.getVersion, {}, { timeoutMs: 700 });
        await server.seen("asked");
        timers.advance(700);
        await assert.rejects(call, (error) => hasCode(error, "deadline_exceeded"));
      },
    ));
});

it("a connection that is closed cleanly while a ping is out does not hold up what comes next", () =>
  scene(
    // As a machine does whose process ends at that moment: the first stream is answered, the ping by the end.
    (moment, _, connection) => (moment === "pinged" && connection === 1 ? "close" : undefined),
    async ({ server, network, timers }) => {
      const first = network.open(server.address, ExchangeService.method.exchange);
      await server.seen("asked");
      const broken = assert.rejects(first.incoming[Symbol.asyncIterator]().next(), (error) =>
        hasCode(error, "unavailable"),
      );
      await untilPinged(server, timers);
      await broken;
      const second = network.open(server.address, ExchangeService.method.exchange);
      await server.seen("asked", 2);
      assert.equal(server.connections, 2);
      second.close();
    },
  ));

it("whoever gives up on a connection that has said nothing since gets a new one", () =>
  scene(
    (moment, times, connection) => (moment === "asked" && times === 2 && connection === 1 ? "stall" : undefined),
    async ({ server, network }) => {
      const first = network.open(server.address, ExchangeService.method.exchange);
      await server.seen("asked");
      await settled();
      // Given up long before a ping could show that the connection stands still.
      const second = network.open(server.address, ExchangeService.method.exchange);
      await server.seen("asked", 2);
      second.close();
      await settled();
      const third = network.open(server.address, ExchangeService.method.exchange);
      await server.seen("asked", 3);
      assert.equal(server.connections, 2);
      first.close();
      third.close();
    },
  ));

it("a peer that answers pings is waited for, however long it says nothing else", () =>
  scene(
    () => undefined,
    async ({ server, network, timers }) => {
      const channel = network.open(server.address, ExchangeService.method.exchange);
      let broken = false;
      channel.incoming[Symbol.asyncIterator]()
        .next()
        .catch(() => {
          broken = true;
        });
      await server.seen("asked");
      for (let pings = 1; pings <= 20; pings++) await untilPinged(server, timers, pings);
      assert.equal(broken, false);
      assert.equal(server.connections, 1);
      channel.close();
    },
  ));

it("an idle connection is closed, and leaves no timers behind", () =>
  scene(
    () => undefined,
    async ({ server: fake, network, timers }) => {
      const channel = network.open(fake.address, ExchangeService.method.exchange);
      await fake.seen("asked");
      await settled();
      channel.close();
      await settled();
      timers.advance(limits.idleMs);
      assert.equal(timers.count, 0);
      network.open(fake.address, ExchangeService.method.exchange);
      await fake.seen("asked", 2);
      assert.equal(fake.connections, 2);
    },
  ));

it("time in which this process did not run does not count against others", () => {
  const delays: number[] = [];
  let fire = () => {};
  let late = 0;
  const timers = {
    after: (delayMs: number, callback: () => void) => {
      delays.push(delayMs);
      fire = callback;
      return () => {};
    },
  };
  within(timers, 4_000, () => late++);
  // However late the first of them fires, the rest of the time is still granted.
  fire();
  assert.equal(late, 0);
  while (late === 0) fire();
  assert.equal(
    delays.reduce((sum, delayMs) => sum + delayMs, 0),
    4_000,
  );
});

/** Until what is on its way between sockets of this machine has arrived. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Lets time pass in which nobody says anything until the connection has been pinged so often. */
async function untilPinged(server: FakeServer, timers: ManualTimers, times = 1): Promise<void> {
  while (server.count("pinged") < times) {
    timers.advance(limits.quietMs / 2);
    await settled();
  }
}
