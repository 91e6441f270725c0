import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { Bandwidth } from "../core/bandwidth.ts";
import { Tasks } from "../core/tasks.ts";
import { virtualWorld } from "../core/virtual-world.testing.ts";
import { silentLog } from "../core/world.ts";
import { AskOutcome, type ExchangeRequest, ExchangeService, Verdict } from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import { MemoryNetwork } from "../protocol/memory-network.testing.ts";
import { chunkBytesMax, type Network, service } from "../protocol/network.ts";
import { Link } from "./link.ts";
import type { Parcel } from "./parcel.ts";

const timings = { retryMinMs: 50, retryMaxMs: 2_000, resendMs: 2_000 };

/** A link to a peer that answers what comes whole, and leaves what comes in chunks without a receipt. */
function scene({ bytesPerSecond = 0, deaf = false } = {}) {
  const { world, until, pass } = virtualWorld();
  const network = new MemoryNetwork();
  const tasks = new Tasks(silentLog);
  const ending = new AbortController();
  const { signal } = ending;
  const opened = { count: 0 };
  const open: MemoryNetwork["open"] = (...given) => {
    opened.count++;
    return network.open(...given);
  };
  const bandwidth = new Bandwidth(world, bytesPerSecond);
  const link = new Link({
    address: "p2",
    network: { ...network, open } as Network,
    world,
    timings,
    tasks,
    bandwidth,
    signal,
  });
  const heard: NonNullable<ExchangeRequest["event"]>[] = [];
  const kinds = () => heard.flatMap(({ case: kind }) => (kind === "ping" ? [] : [kind]));
  const lent = { now: 0 };
  const serve = () =>
    network.serve("p2", [
      service(ExchangeService, {
        exchange: async (channel) => {
          for await (const { event } of channel.incoming) {
            heard.push(event);
            if (deaf) continue;
            if (event.case === "ping") await channel.send({ event: { case: "pong", value: { id: event.value.id } } });
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
  const parcel = (bytes: number, more: Partial<Parcel> = {}): Parcel => ({
    label: { name: { session: "s", step: 1n, edge: "a>b" } },
    ...{ from: "a", to: "b", epoch: 1, key: `a parcel of ${bytes}`, urgent: false },
    open: async () => {
      lent.now++;
      const release = () => {
        lent.now--;
      };
      return { content: { dtype: "float32", shape: [bytes / 4], bytes: new Uint8Array(bytes) }, hash: "h", release };
    },
    ...more,
  });
  const deliver = async (bytes: number, more: Partial<Parcel> = {}) => {
    const outcomes: string[] = [];
    link.deliver(parcel(bytes, more), (outcome) => outcomes.push(outcome));
    await until(() => outcomes.length > 0);
    assert.equal(outcomes.length, 1);
    return outcomes[0] as string;
  };
  const ask = async () => {
    const answers: string[] = [];
    link.ask({ to: "b", from: "a", names: [] }, (answer) => answers.push(answer));
    await until(() => answers.length > 0);
    return answers[0];
  };
  return { link, network, serve, heard, kinds, parcel, deliver, ask, world, until, pass, lent, opened, ending };
}

const nobody = () => {};

describe("a link to a peer", () => {
  it("says who it is, then delivers and asks over one stream", async () => {
    const { serve, deliver, ask, kinds, lent } = scene();
    await serve();
    assert.equal(await deliver(16), "stored");
    assert.equal(await ask(), "gone");
    assert.deepEqual(kinds(), ["hello", "delivery", "ask"]);
    assert.equal(lent.now, 0, "what was lent for sending is given back");
  });

  it("cuts large tensors into chunks that fit a message", async () => {
    const { serve, parcel, heard, kinds, link, until } = scene();
    await serve();
    link.deliver(parcel(2 * chunkBytesMax + 4), nobody);
    await until(() => kinds().length === 5);
    const chunks = heard.flatMap((event) => (event.case === "chunk" ? [event.value.data.length] : []));
    assert.deepEqual(chunks, [chunkBytesMax, chunkBytesMax, 4]);
    link.close();
  });

  it("sends a tensor once while it is on its way, and again when its receipt does not come", async () => {
    const { serve, parcel, deliver, kinds, link, until, pass } = scene();
    await serve();
    // Nobody answers chunks here, so it stays without a receipt.
    link.deliver(parcel(2 * chunkBytesMax), nobody);
    assert.equal(await deliver(2 * chunkBytesMax), "dropped");
    await until(() => kinds().length === 4);
    assert.equal(await deliver(2 * chunkBytesMax), "dropped");
    await pass(timings.resendMs);
    link.deliver(parcel(2 * chunkBytesMax), nobody);
    await until(() => kinds().length === 7);
    assert.equal(kinds().filter((kind) => kind === "delivery").length, 2);
    link.close();
  });

  it("lets urgent ones overtake, even between the chunks of a large one", async () => {
    const { serve, parcel, link, heard, until } = scene({ bytesPerSecond: chunkBytesMax });
    await serve();
    link.deliver(parcel(4 * chunkBytesMax), nobody);
    link.deliver(parcel(64), nobody);
    await until(() => heard.some(({ case: kind }) => kind === "chunk"));
    link.deliver(parcel(32, { urgent: true }), nobody);
    await until(() => heard.filter(({ case: kind }) => kind === "delivery").length === 3);
    const sizes = heard.flatMap((event) => (event.case === "delivery" ? [Number(event.value.bytes)] : []));
    assert.deepEqual(sizes, [4 * chunkBytesMax, 32, 64]);
    const before = heard.findIndex((event) => event.case === "delivery" && event.value.bytes === 32n);
    assert.ok(
      heard.slice(before).some(({ case: kind }) => kind === "chunk"),
      "the large one was not finished",
    );
    link.close();
  });

  it("keeps to the bandwidth that its owner allows, with small and with large tensors", async () => {
    for (const bytes of [256 << 10, 4 << 20]) {
      const { serve, parcel, link, heard, until, world } = scene({ bytesPerSecond: 1 << 20 });
      await serve();
      const total = 16 << 20;
      for (let sent = 0; sent < total / bytes; sent++) link.deliver(parcel(bytes, { key: `${sent}` }), nobody);
      const received = () =>
        heard.reduce(
          (sum, { case: kind, value }) => (kind === "delivery" || kind === "chunk" ? sum + value.data.length : sum),
          0,
        );
      await until(() => received() === total);
      const seconds = world.clock.monotonicMs() / 1_000;
      assert.ok(seconds > 15 && seconds < 16.5, `${total >> 20} MB took ${seconds} s at 1 MB/s`);
      link.close();
    }
  });

  it("does not send what was overtaken while it waited", async () => {
    const { serve, deliver, kinds } = scene();
    await serve();
    const useless = async () => {
      throw new Error("nobody needs it any more");
    };
    assert.equal(await deliver(16, { open: useless }), "dropped");
    assert.deepEqual(kinds(), []);
  });

  it("gives up what cannot be delivered, and comes back when the peer does", async () => {
    const { serve, deliver, network, world, lent } = scene();
    assert.equal(await deliver(16), "broken");
    assert.equal(world.clock.monotonicMs(), 0);
    assert.equal(await deliver(16), "broken");
    assert.ok(world.clock.monotonicMs() > 0, "it does not knock again at once");
    await serve();
    assert.equal(await deliver(16), "stored");
    network.kill("p2");
    assert.equal(await deliver(16), "broken");
    await serve();
    assert.equal(await deliver(16), "stored");
    assert.equal(lent.now, 0);
  });

  it("gives up a peer that takes everything and never says a word", async () => {
    const { serve, deliver, ask, world, link } = scene({ deaf: true });
    await serve();
    assert.equal(await deliver(16), "broken");
    assert.equal(await ask(), "broken");
    const waitedMs = world.clock.monotonicMs();
    assert.ok(waitedMs > 20_000 && waitedMs < 30_000, `${waitedMs} ms for two attempts`);
    assert.ok(link.failingMs > 10_000);
  });

  it("waits for a slow peer as long as it gives signs of life", async () => {
    const { serve, parcel, link, pass } = scene();
    await serve();
    const outcomes: string[] = [];
    // Chunks get no receipt here, pings get their answers.
    link.deliver(parcel(2 * chunkBytesMax), (outcome) => outcomes.push(outcome));
    await pass(120_000);
    assert.deepEqual(outcomes, []);
    link.close();
    assert.deepEqual(outcomes, ["broken"]);
  });

  it("leaves what does not get on, though the peer gives signs of life, and sends the rest over a new stream", async () => {
    const { serve, parcel, deliver, link, pass, kinds } = scene();
    await serve();
    assert.equal(await deliver(16), "stored");
    const outcomes: string[] = [];
    // A disk that never answers, for example.
    link.deliver(parcel(32, { open: () => new Promise(() => {}) }), (outcome) => outcomes.push(outcome));
    link.deliver(parcel(48), (outcome) => outcomes.push(outcome));
    await pass(8_000);
    assert.deepEqual(outcomes, []);
    await pass(8_000);
    assert.deepEqual(outcomes, ["broken", "broken"], "what waited behind it is given up too, and asked for again");
    assert.equal(await deliver(48), "stored");
    assert.equal(await deliver(32), "stored");
    assert.equal(kinds().filter((kind) => kind === "hello").length, 2);
    link.close();
  });

  it("waits as long as it takes for what its owner lends of the line", async () => {
    const { serve, parcel, link, pass, kinds } = scene({ bytesPerSecond: 20_000 });
    await serve();
    const outcomes: string[] = [];
    // 52 seconds each; whoever asks once more in between does not change it.
    link.deliver(parcel(chunkBytesMax), (outcome) => outcomes.push(outcome));
    link.deliver(parcel(chunkBytesMax - 4), (outcome) => outcomes.push(outcome));
    await pass(120_000);
    assert.deepEqual(outcomes, ["stored", "stored"]);
    assert.equal(kinds().filter((kind) => kind === "hello").length, 1);
    link.close();
  });

  it("that others wait for goes by a new stream, but for what may still arrive in its time", async () => {
    const { serve, parcel, deliver, link, pass, kinds } = scene();
    await serve();
    const streams = () => kinds().filter((kind) => kind === "hello").length;
    assert.equal(await deliver(16), "stored");
    const outcomes: string[] = [];
    // Chunks get no receipt here, though the peer gives signs of life: it has lost them, or needs long for them.
    link.deliver(parcel(2 * chunkBytesMax), (outcome) => outcomes.push(outcome));
    await pass(20_000);
    link.renew();
    assert.deepEqual(outcomes, [], "eight times 256 KiB may take a while");
    await pass(40_000);
    assert.deepEqual(outcomes, [], "nobody but who waits knows that it does not come");
    link.renew();
    assert.deepEqual(outcomes, ["broken"]);
    assert.equal(await deliver(16), "stored");
    assert.equal(streams(), 2);
    // Nothing is under way: then nothing is lost.
    link.renew();
    assert.equal(await deliver(16), "stored");
    assert.equal(streams(), 3);
    link.close();
  });

  it("opens no stream any more once it was let go, whatever waited, and takes nothing", async () => {
    for (const letGo of ["closed", "ended"] as const) {
      const { deliver, link, parcel, pass, opened, lent, world, serve, ending } = scene({ bytesPerSecond: 100_000 });
      assert.equal(await deliver(16), "broken");
      await serve();
      const outcomes: string[] = [];
      const note = (outcome: string) => outcomes.push(outcome);
      // One waits until the peer may be called again; on the line of its owner others would wait for ten seconds.
      link.deliver(parcel(letGo === "closed" ? 32 : 1_000_000), note);
      link.deliver(parcel(48), note);
      await pass(1);
      assert.deepEqual([opened.count, lent.now, outcomes.length], [1, 1, 0]);
      const atMs = world.clock.monotonicMs();
      if (letGo === "closed") link.close();
      else ending.abort();
      assert.deepEqual(outcomes, ["broken", "broken"]);
      link.deliver(parcel(64), note);
      link.ask({ to: "b", from: "a", names: [] }, note);
      assert.deepEqual(outcomes.slice(2), ["broken", "broken"]);
      await pass(1);
      assert.equal(
        lent.now,
        0,
        `what was lent is given back at once, not ${world.clock.monotonicMs() - atMs} ms later`,
      );
      await pass(120_000);
      assert.equal(opened.count, 1);
    }
  });

  it("knows for how long a peer that is called has not answered", async () => {
    const { serve, deliver, link, network, world, pass } = scene();
    await serve();
    assert.equal(await deliver(16), "stored");
    assert.equal(link.failingMs, 0);
    network.kill("p2");
    assert.equal(await deliver(16), "broken");
    const sinceMs = world.clock.monotonicMs();
    for (let i = 0; i < 4; i++) {
      await pass(3_000);
      assert.equal(await deliver(16), "broken");
    }
    assert.ok(Math.abs(link.failingMs - (world.clock.monotonicMs() - sinceMs)) < 100, `${link.failingMs} ms`);
    await pass(10_000);
    assert.equal(link.failingMs, 0, "nobody calls it any more");
    assert.equal(await deliver(16), "broken");
    assert.ok(link.failingMs < 5_000, "and when somebody does, it begins anew");
    await serve();
    assert.equal(await deliver(16), "stored");
    assert.equal(link.failingMs, 0);
  });
});
