import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode } from "../../src/core/errors.ts";
import { sleep } from "../../src/core/world.ts";
import { ExchangeService } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { SystemService } from "../../src/protocol/gen/dcnr/v1/system_pb.ts";
import { type Handlers, service } from "../../src/protocol/network.ts";
import { isRefused } from "../../src/protocol/streams/wire-errors.ts";
import { Fabric } from "./network.ts";
import { noWireFaults, Wire } from "./wire.ts";
import { type Host, SimulatedWorld } from "./world.ts";

function twoHosts(seed = 1, windowBytes = 1_000) {
  const world = new SimulatedWorld(seed);
  const wire = new Wire(world);
  const fabric = new Fabric(wire, { windowBytes });
  const [a, b] = [world.start("a"), world.start("b")];
  return { world, wire, fabric, a, b, onA: fabric.network(a), onB: fabric.network(b) };
}

/** Answers every ping, and counts what it was asked. */
function echo(host: Host) {
  const seen: bigint[] = [];
  const system: Handlers<typeof SystemService> = {
    getVersion: async (_, { caller }) => {
      seen.push(BigInt(seen.length));
      return { id: host.name, role: caller.address };
    },
    getHealth: async () => {
      await sleep(host.world.timers, 100_000);
      return {};
    },
  };
  const exchange: Handlers<typeof ExchangeService> = {
    exchange: async (channel) => {
      for await (const { event } of channel.incoming) {
        if (event.case !== "ping") continue;
        seen.push(event.value.id);
        await channel.send({ event: { case: "pong", value: { id: event.value.id } } });
      }
    },
  };
  return { seen, services: [service(SystemService, system), service(ExchangeService, exchange)] };
}

test("a call crosses as bytes and is answered by the host that listens there", async () => {
  const { world, onA, onB, b } = twoHosts();
  await onB.serve("b:1", echo(b).services);
  let answer: object | undefined;
  void onA.call("b:1", SystemService.method.getVersion, {}).then((reply) => {
    answer = { id: reply.id, role: reply.role };
  });
  await world.time.run(() => answer !== undefined, 1_000);
  assert.deepEqual(answer, { id: "b", role: "a" });
});

async function outcomeOf(world: SimulatedWorld, promise: Promise<unknown>): Promise<unknown> {
  let outcome: { error?: unknown; value?: unknown } | undefined;
  promise.then(
    (value) => {
      outcome = { value };
    },
    (error) => {
      outcome = { error };
    },
  );
  await world.time.run(() => outcome !== undefined, 1e6);
  return outcome?.error;
}

test("calls fail as unavailable when nobody listens, the server crashes, or the reply is lost", async () => {
  const { world, wire, onA, onB, b } = twoHosts();
  const health = () => onA.call("b:1", SystemService.method.getHealth, {});
  const nobody = await outcomeOf(world, health());
  assert.ok(hasCode(nobody, "unavailable") && isRefused(nobody));
  const server = echo(b);
  await onB.serve("b:1", server.services);
  wire.faults = { ...noWireFaults, replyLost: 1 };
  const lost = await outcomeOf(world, onA.call("b:1", SystemService.method.getVersion, {}));
  assert.ok(hasCode(lost, "unavailable") && !isRefused(lost));
  assert.equal(server.seen.length, 1, "the handler ran although its reply was lost");
  wire.faults = noWireFaults;
  const pending = outcomeOf(world, health());
  world.time.after(50, () => b.crash());
  assert.ok(hasCode(await pending, "unavailable"));
});

test("a call ends at its deadline by the caller's clock", async () => {
  const { world, onA, onB, b } = twoHosts();
  await onB.serve("b:1", echo(b).services);
  const error = await outcomeOf(world, onA.call("b:1", SystemService.method.getHealth, {}, { timeoutMs: 700 }));
  assert.ok(hasCode(error, "deadline_exceeded"));
  assert.equal(world.time.nowMs, 700);
});

async function pingAll(options: {
  seed: number;
  loss?: number;
  count: number;
  disturb?: (w: ReturnType<typeof twoHosts>) => void;
}) {
  const w = twoHosts(options.seed);
  const server = echo(w.b);
  await w.onB.serve("b:1", server.services);
  w.wire.faults = { ...noWireFaults, loss: options.loss ?? 0, spike: 0.2, spikeMs: 300 };
  const pongs: bigint[] = [];
  let end: unknown;
  const talk = async () => {
    const channel = w.onA.open("b:1", ExchangeService.method.exchange);
    const reading = (async () => {
      for await (const { event } of channel.incoming) if (event.case === "pong") pongs.push(event.value.id);
    })();
    const sending = (async () => {
      for (let id = 0; id < options.count; id++)
        await channel.send({ event: { case: "ping", value: { id: BigInt(id), payload: new Uint8Array(100) } } });
    })();
    await Promise.all([sending, reading.catch((error) => Promise.reject(error))]);
  };
  talk().then(
    () => {
      end = "closed";
    },
    (error) => {
      end = error;
    },
  );
  options.disturb?.(w);
  await w.world.time.run(() => end !== undefined || pongs.length === options.count, 60_000);
  return { ...w, pongs, seen: server.seen, end };
}

test("a stream keeps its order through delay spikes and a short partition, and its window makes senders wait", async () => {
  const { pongs, world } = await pingAll({
    seed: 7,
    count: 200,
    disturb: ({ world, wire }) => {
      world.time.after(20, () => wire.block("a", "b"));
      world.time.after(2_000, () => wire.unblock("a", "b"));
    },
  });
  assert.deepEqual(
    pongs,
    Array.from({ length: 200 }, (_, id) => BigInt(id)),
  );
  assert.ok(world.time.nowMs > 2_000);
});

test("a lost message, a long one-way partition and a crash each break the stream; nothing is skipped before", async () => {
  const cases = [
    { loss: 0.05 },
    { disturb: ({ world, wire }: ReturnType<typeof twoHosts>) => world.time.after(30, () => wire.block("b", "a")) },
    { disturb: ({ world, b }: ReturnType<typeof twoHosts>) => world.time.after(30, () => b.crash()) },
  ];
  for (const disturbance of cases) {
    const { end, seen, pongs } = await pingAll({ seed: 3, count: 2_000, ...disturbance });
    assert.ok(hasCode(end, "unavailable"), String(end));
    assert.deepEqual(
      seen,
      seen.map((_, id) => BigInt(id)),
    );
    assert.ok(pongs.length < 2_000);
  }
});

test("two runs of one seed give the same trace, another seed another one", async () => {
  const hash = async (seed: number) => (await pingAll({ seed, count: 300, loss: 0.002 })).world.trace.hash;
  assert.equal(await hash(11), await hash(11));
  assert.notEqual(await hash(11), await hash(12));
});
