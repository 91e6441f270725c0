import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { EdgeId, VNodeId } from "../core/ids.ts";
import { silentLog, type World } from "../core/world.ts";
import { AskOutcome, type ExchangeRequest, ExchangeService, Verdict } from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import { chunkBytesMax, service } from "../protocol/network.ts";
import { Bandwidth } from "./bandwidth.ts";
import { Link } from "./link.ts";
import { MemoryNetwork } from "./memory.testing.ts";
import { timingsDefault } from "./options.ts";
import { StoredTensor } from "./retention.ts";
import { Tasks } from "./tasks.ts";

/** Timers fire at once; what they were set to is remembered. */
function scene() {
  const delays: number[] = [];
  const clock = { nowMs: 0 };
  const world: World = {
    clock: { wallMs: () => 0, monotonicMs: () => clock.nowMs },
    timers: {
      after: (delayMs, callback) => {
        delays.push(delayMs);
        queueMicrotask(callback);
        return () => {};
      },
    },
    chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
    log: silentLog,
  };
  const network = new MemoryNetwork();
  const tasks = new Tasks(silentLog);
  const { signal } = new AbortController();
  const bandwidth = new Bandwidth(world, 0);
  const link = new Link({
    address: "p2",
    pnode: "p1",
    network,
    world,
    timings: timingsDefault,
    tasks,
    bandwidth,
    signal,
  });
  const heard: NonNullable<ExchangeRequest["event"]>[] = [];
  const serve = () =>
    network.serve("p2", [
      service(ExchangeService, {
        exchange: async (channel) => {
          for await (const { event } of channel.incoming) {
            heard.push(event);
            if (event.case === "ask")
              await channel.send({
                event: { case: "answer", value: { id: event.value.id, outcome: AskOutcome.GONE } },
              });
            if (event.case === "delivery" && event.value.data.length > 0)
              await channel.send({
                event: { case: "receipt", value: { id: event.value.id, verdict: Verdict.STORED } },
              });
          }
        },
      }),
    ]);
  const name = { step: 1, microbatch: 0, edge: "a>b" as EdgeId, direction: "forward" } as const;
  const deliver = (bytes: number) =>
    new Promise<string>((resolve) => {
      const payload = new StoredTensor({ dtype: "float32", shape: [bytes / 4], bytes: new Uint8Array(bytes) });
      const message = { name, to: "b" as VNodeId, hash: "h", payload };
      link.deliver({ session: "s", from: "a", epoch: 1, message }, resolve);
    });
  const ask = () =>
    new Promise<string>((resolve) => {
      link.ask({ session: "s", to: "b", address: "p1", from: "a", names: [name] }, resolve);
    });
  return { link, network, serve, heard, deliver, ask, delays, clock };
}

describe("a link to a peer", () => {
  it("says who it is, then delivers and asks over one stream", async () => {
    const { serve, deliver, ask, heard } = scene();
    await serve();
    assert.equal(await deliver(16), "stored");
    assert.equal(await ask(), "gone");
    assert.deepEqual(
      heard.map((event) => event.case),
      ["hello", "delivery", "ask"],
    );
  });

  it("cuts large tensors into chunks that fit a message", async () => {
    const { serve, deliver, heard, link } = scene();
    await serve();
    void deliver(2 * chunkBytesMax + 4);
    while (heard.length < 5) await new Promise((resolve) => setImmediate(resolve));
    const chunks = heard.flatMap((event) => (event.case === "chunk" ? [event.value.data.length] : []));
    assert.deepEqual(chunks, [chunkBytesMax, chunkBytesMax, 4]);
    link.close();
  });

  it("sends a tensor once while it is on its way, and again when its receipt does not come", async () => {
    const { serve, deliver, heard, link, clock } = scene();
    await serve();
    // Nobody answers chunks here, so it stays without a receipt.
    void deliver(2 * chunkBytesMax);
    assert.equal(await deliver(2 * chunkBytesMax), "dropped");
    while (heard.length < 4) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(await deliver(2 * chunkBytesMax), "dropped");
    clock.nowMs += timingsDefault.askMaxMs;
    void deliver(2 * chunkBytesMax);
    while (heard.length < 7) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(heard.filter((event) => event.case === "delivery").length, 2);
    link.close();
  });

  it("gives up what cannot be delivered, and comes back when the peer does", async () => {
    const { serve, deliver, network, delays } = scene();
    assert.equal(await deliver(16), "broken");
    assert.equal(await deliver(16), "broken");
    assert.ok(delays.length >= 1, "it does not knock again at once");
    await serve();
    assert.equal(await deliver(16), "stored");
    network.kill("p2");
    assert.equal(await deliver(16), "broken");
    await serve();
    assert.equal(await deliver(16), "stored");
  });

  it("knows for how long a peer that is called has not answered", async () => {
    const { serve, deliver, link, clock, network } = scene();
    await serve();
    assert.equal(await deliver(16), "stored");
    assert.equal(link.failingMs, 0);
    network.kill("p2");
    for (let i = 0; i < 4; i++) {
      assert.equal(await deliver(16), "broken");
      clock.nowMs += 3_000;
    }
    assert.equal(link.failingMs, 12_000);
    clock.nowMs += 10_000;
    assert.equal(link.failingMs, 0, "nobody calls it any more");
    assert.equal(await deliver(16), "broken");
    assert.equal(link.failingMs, 0, "and when somebody does, it begins anew");
    clock.nowMs += 2_000;
    assert.equal(await deliver(16), "broken");
    assert.equal(link.failingMs, 2_000);
    await serve();
    assert.equal(await deliver(16), "stored");
    assert.equal(link.failingMs, 0);
  });
});
