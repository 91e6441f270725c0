import assert from "node:assert/strict";
import { it } from "node:test";
import { DcnrError } from "../core/errors.ts";
import { silentLog, type World } from "../core/world.ts";
import type { Network } from "../protocol/network.ts";
import { Attachment, type AttachmentOptions } from "./attachment.ts";
import { Reports } from "./reports.ts";

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A stream whose sends arrive when the test says so; timers never fire. */
function slowOrchestrator() {
  const arrived: { sequence: bigint; metrics: string[] }[] = [];
  const sending: (() => void)[] = [];
  const answers: object[] = [{ event: { case: "registered", value: { orchestrators: [], heartbeatIntervalMs: 0 } } }];
  let ring = () => {};
  const answer = (event: object) => {
    answers.push({ event });
    ring();
  };
  const stream = {
    send: ({ event }: { event: { case: string; value: { sequence: bigint; metrics: { name: string }[] } } }) => {
      if (event.case !== "heartbeat") return Promise.resolve();
      return new Promise<void>((resolve) =>
        sending.push(() => {
          const { sequence, metrics } = event.value;
          arrived.push({ sequence, metrics: metrics.map(({ name }) => name) });
          resolve();
          answer({ case: "heartbeatAck", value: { sequence } });
        }),
      );
    },
    close: () => {},
    incoming: (async function* () {
      for (;;) {
        while (answers.length > 0) yield answers.shift();
        await new Promise<void>((resolve) => {
          ring = resolve;
        });
      }
    })(),
  };
  const deliver = async () => {
    sending.shift()?.();
    for (let i = 0; i < 5; i++) await turn();
  };
  return { network: { open: () => stream } as unknown as Network, arrived, deliver };
}

/** Time stands still. */
const idleWorld: World = {
  clock: { wallMs: () => 0, monotonicMs: () => 0 },
  timers: { after: () => () => {} },
  chance: { bytes: (length) => new Uint8Array(length), uniform: () => 0 },
  log: silentLog,
};

const optionsFor = (network: Network, world: World, reports: Reports) =>
  ({
    network,
    world,
    reports,
    timings: { heartbeatIntervalMs: 1_000, registerTimeoutMs: 1_000, silentMs: 1_000, retryMinMs: 1, retryMaxMs: 1 },
    orchestrators: { current: "o1", count: 1, learn: () => {}, failed: () => {} },
    signal: new AbortController().signal,
    register: () => ({}),
    heartbeat: () => ({}),
    onRegistered: () => {},
  }) as unknown as AttachmentOptions;

it("what was measured while a heartbeat was on its way is awaited with the next one", async () => {
  const { network, arrived, deliver } = slowOrchestrator();
  const reports = new Reports(idleWorld.clock);
  const attachment = new Attachment(optionsFor(network, idleWorld, reports));
  void attachment.run();
  for (let i = 0; i < 5; i++) await turn();
  // The first heartbeat is on its way when the last numbers of a session come.
  reports.metric({ name: "validation_loss", step: 1n, value: 1 });
  let flushed = false;
  const flushing = attachment.flush().then(() => {
    flushed = true;
  });
  await deliver();
  assert.deepEqual(arrived, [{ sequence: 1n, metrics: [] }]);
  assert.equal(flushed, false, "the first heartbeat did not carry them");
  await deliver();
  await flushing;
  assert.deepEqual(arrived[1], { sequence: 2n, metrics: ["validation_loss"] });
});

/** One that answers a registration when the test says so; `told` are the words that came, in their order. */
function lateOrchestrator() {
  const { promise: arrives, resolve: arrive } = Promise.withResolvers<void>();
  const told: { case: string; value: object }[] = [];
  const stream = {
    send: ({ event }: { event: { case: string; value: object } }) => {
      if (event.case !== "heartbeat") told.push(event);
      return Promise.resolve();
    },
    close: () => {},
    incoming: (async function* () {
      await arrives;
      yield { event: { case: "registered", value: { orchestrators: [], heartbeatIntervalMs: 0 } } };
      await new Promise(() => {});
    })(),
  };
  return { network: { open: () => stream } as unknown as Network, told, arrive };
}

it("routes that come to stand while a registration is on its way are told once it has arrived", async () => {
  const { network, told, arrive } = lateOrchestrator();
  const attachment = new Attachment({
    ...optionsFor(network, idleWorld, new Reports(idleWorld.clock)),
    register: () => ({ routes: ["home"] }),
  });
  attachment.tellMoved(["an old one"]);
  void attachment.run();
  await turn();
  attachment.tellMoved(["home", "a relay"]);
  attachment.tellMoved(["home", "a better relay"]);
  await turn();
  const registration = { case: "register", value: { routes: ["home"] } };
  assert.deepEqual(told, [registration], "nothing goes before the answer");
  arrive();
  for (let i = 0; i < 5; i++) await turn();
  assert.deepEqual(told, [registration, { case: "moved", value: { routes: ["home", "a better relay"] } }]);
});

it("all that is measured while a registration is on its way is told: what a machine lends takes its classes from nobody", async () => {
  const { network, told, arrive } = lateOrchestrator();
  const attachment = new Attachment(optionsFor(network, idleWorld, new Reports(idleWorld.clock)));
  void attachment.run();
  await turn();
  const classes = { gflops: 40, numerics: [{ engine: "native", class: "a" }] };
  attachment.tellMeasurement(classes);
  attachment.tellMeasurement({ memoryBytes: 1n });
  arrive();
  for (let i = 0; i < 5; i++) await turn();
  assert.deepEqual(
    told.slice(1).map(({ value }) => value),
    [classes, { memoryBytes: 1n }],
  );
});

it("an outage is told once, not once an attempt, and the first attachment is awaited", async () => {
  const told: string[] = [];
  const { network, deliver } = slowOrchestrator();
  let attempts = 0;
  const opening: Network = {
    ...network,
    open: ((...args: Parameters<Network["open"]>) => {
      if (++attempts > 5) return network.open(...args);
      const send = () => Promise.reject(new DcnrError("unavailable", "nothing answers at o1"));
      return { send, close: () => {} };
    }) as Network["open"],
  };
  const world: World = {
    ...idleWorld,
    // Every wait is over at once, but for heartbeats and the watch.
    timers: {
      after: (delayMs, callback) => {
        if (delayMs <= 10) setImmediate(callback);
        return () => {};
      },
    },
    log: (level, message) => {
      if (level === "warn") told.push(message);
    },
  };
  const attachment = new Attachment(optionsFor(opening, world, new Reports(world.clock)));
  void attachment.run();
  await attachment.first;
  await deliver();
  assert.equal(attempts, 6);
  assert.equal(attachment.failure, undefined);
  assert.deepEqual(told, ["not attached to an orchestrator, trying again: nothing answers at o1"]);
});

it("a machine that cannot tell for a moment where it is reached attaches when it can", async () => {
  const { network } = slowOrchestrator();
  const world: World = {
    ...idleWorld,
    timers: {
      after: (delayMs, callback) => {
        if (delayMs <= 10) setImmediate(callback);
        return () => {};
      },
    },
  };
  let asked = 0;
  const attachment = new Attachment({
    ...optionsFor(network, world, new Reports(world.clock)),
    locate: async () => {
      if (++asked === 1) throw new Error("its interfaces cannot be read");
    },
  });
  const running = attachment.run().then(() => assert.fail("it went on trying"));
  await Promise.race([attachment.first, running]);
  assert.equal(asked, 2);
});
