import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { hashOfContent } from "../../core/hash.ts";
import type { EdgeId, SessionId, VNodeId } from "../../core/ids.ts";
import { silentLog } from "../../core/world.ts";
import { type Ownership, peerService } from "../../peer/receiving.ts";
import { Refusals } from "../../peer/refusals.ts";
import { DataType, Direction } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import { type DeliverySchema, ExchangeService, Verdict } from "../../protocol/gen/dcnr/v1/exchange_pb.ts";
import { MemoryNetwork } from "../../protocol/memory-network.testing.ts";
import type { Verdict as ProcessVerdict } from "../../vnode/effects.ts";
import type { Admission } from "../../vnode/inbox.ts";
import { Arrivals } from "./arrivals.ts";
import { Exchange } from "./exchange.ts";
import type { Arrival, Receiver } from "./receiver.ts";

const edge = "a.0>b.0" as EdgeId;

/** What a process says about a message that it admits so. */
const verdicts: Readonly<Record<Admission, ProcessVerdict>> = {
  wanted: "stored",
  duplicate: "dropped",
  conflict: "dropped",
  old: "dropped",
  beyond: "wait",
  unknown: "refused",
};

/** A VNode `b` that takes [rows, 4] floats from `a`, and an exchange in front of it. */
function scene(rows: number, options: { admission?: Admission; owner?: Ownership; running?: boolean } = {}) {
  const received: Arrival[] = [];
  const memory = { taken: 0, discarded: 0 };
  const { admission = "wanted", owner = "owner", running = true } = options;
  let asked = 0;
  const receiver: Receiver = {
    epoch: 1,
    life: undefined,
    needsProof: false,
    isSilent: undefined,
    isRunning: running,
    memory: {
      allocate: (bytes) => {
        memory.taken += bytes;
        return new Uint8Array(bytes);
      },
      share: () => {},
      release: ({ byteLength }) => {
        memory.discarded += byteLength;
      },
    },
    expects: (name) => (name.edge === edge ? { wire: "float32", shape: [rows, 4], from: "a" as VNodeId } : undefined),
    admit: () => {
      asked++;
      return admission;
    },
    receive: (arrival) => {
      received.push(arrival);
      return verdicts[admission];
    },
    hears: () => undefined,
    asked: (_names, asker) => asker.answer("gone"),
  };
  const network = new MemoryNetwork("p1");
  const directory = { find: (_session: SessionId, vnode: VNodeId) => (vnode === "b" ? receiver : undefined) };
  const arrivals = new Arrivals(directory, () => {});
  const served = peerService({
    exchange: arrivals,
    passes: { expects: () => assert.fail("nothing is served here") },
    onAsk: (ask, peer, answer) => arrivals.asked(ask, peer, answer),
    onLost: () => {},
    ownership: () => owner,
    hashOf: hashOfContent,
    refusals: new Refusals({ clock: { wallMs: () => 0, monotonicMs: () => 0 }, log: silentLog }),
    log: silentLog,
  });
  const content = new Uint8Array(rows * 16);
  new Float32Array(content.buffer).fill(1.5);
  const tensor = { dtype: "float32", shape: [rows, 4], bytes: content } as const;
  const delivery = {
    id: 7n,
    name: { session: "s", step: 3n, microbatch: 1, edge, direction: Direction.FORWARD },
    to: "b",
    from: "a",
    epoch: 2n,
    dtype: DataType.FLOAT32,
    shape: [rows, 4],
    bytes: BigInt(content.length),
    hash: hashOfContent(tensor),
    data: content,
  };
  /** Sends one delivery and what belongs to it; gives the receipt. */
  const deliver = async (more: MessageInitShape<typeof DeliverySchema>, chunks: Uint8Array[] = []) => {
    await network.serve("p2", [served]);
    const channel = network.open("p2", ExchangeService.method.exchange);
    await channel.send({ event: { case: "hello", value: { protocolMajor: 1 } } });
    await channel.send({ event: { case: "delivery", value: { ...delivery, ...more } as never } });
    for (const data of chunks) await channel.send({ event: { case: "chunk", value: { id: 7n, data } } });
    for await (const { event } of channel.incoming) {
      channel.close();
      assert.equal(event.case, "receipt");
      return event.value as { verdict: Verdict; detail: string };
    }
    return assert.fail("a delivery is answered");
  };
  return { deliver, delivery, received, content, memory, timesAsked: () => asked };
}

const none = new Uint8Array(0);

describe("the exchange", () => {
  it("stores a tensor that the plan expects, and says who sent it", async () => {
    const { deliver, received, content } = scene(2);
    assert.equal((await deliver({})).verdict, Verdict.STORED);
    assert.deepEqual((await received[0]!.tensor!.take()).bytes, content);
    assert.equal(received[0]!.from, "2 p1");
  });

  it("puts a tensor together from chunks", async () => {
    const { deliver, received, content } = scene(100_000);
    const chunks = [content.subarray(0, 1 << 20), content.subarray(1 << 20)];
    assert.equal((await deliver({ data: none }, chunks)).verdict, Verdict.STORED);
    assert.deepEqual((await received[0]!.tensor!.take()).bytes, content);
  });

  it("refuses what the plan does not say, before it takes memory for it", async () => {
    const { deliver, delivery, received, memory } = scene(2);
    const wrong: MessageInitShape<typeof DeliverySchema>[] = [
      { shape: [3, 4] },
      { shape: [2 ** 31, 2 ** 31], bytes: 2n ** 62n, data: none },
      { dtype: DataType.FLOAT16 },
      { dtype: 77 as DataType },
      { bytes: 2n ** 40n, data: none },
      { from: "c" },
      { hash: "0".repeat(64) },
      { name: { ...delivery.name, edge: "x>y" } },
      { name: { ...delivery.name, direction: Direction.UNSPECIFIED } },
      { name: { ...delivery.name, step: 2n ** 60n } },
      { name: undefined },
      { data: new Uint8Array(3) },
    ];
    for (const each of wrong)
      assert.equal((await deliver(each)).verdict, Verdict.REFUSED, JSON.stringify(Object.keys(each)));
    assert.deepEqual(received, []);
    // The wrong hash alone is found out by the bytes.
    assert.deepEqual(memory, { taken: 32, discarded: 32 });
  });

  it("asks a VNode once whether it wants a tensor, and takes memory only if it does", async () => {
    for (const admission of ["wanted", "old", "duplicate", "beyond", "conflict", "unknown"] as const) {
      const { deliver, timesAsked, memory, content } = scene(2, { admission });
      await deliver({});
      assert.equal(timesAsked(), 1, admission);
      assert.equal(memory.taken, admission === "wanted" ? content.length : 0, admission);
    }
  });

  it("gives memory back when a tensor does not come to its end", async () => {
    const { deliver, memory, content } = scene(2);
    assert.equal((await deliver({ data: none }, [content, content])).verdict, Verdict.STORED);
    assert.deepEqual(memory, { taken: 32, discarded: 0 });
    const other = scene(2);
    await other.deliver({ data: none }, [content.subarray(0, 20), content]);
    assert.deepEqual(other.memory, { taken: 32, discarded: 32 });
  });

  it("refuses NaN, and more bytes than were announced", async () => {
    const { deliver, received, content } = scene(2);
    const poisoned = content.slice();
    new Float32Array(poisoned.buffer)[5] = Number.NaN;
    const hash = hashOfContent({ dtype: "float32", shape: [2, 4], bytes: poisoned });
    assert.match((await deliver({ data: poisoned, hash })).detail, /NaN/);
    assert.equal((await deliver({ data: none }, [content.subarray(0, 20), content])).verdict, Verdict.REFUSED);
    assert.deepEqual(received, []);
  });

  it("refuses a zombie, and sends those who come too late or too early their way", async () => {
    assert.equal((await scene(2, { owner: "other" }).deliver({})).verdict, Verdict.REFUSED);
    const unknown = scene(2, { owner: "unknown" });
    assert.equal((await unknown.deliver({ epoch: 1n << 40n })).verdict, Verdict.WAIT);
    assert.deepEqual(unknown.received, [], "nobody is believed before orchestrators have named it");
    assert.equal((await scene(2, { admission: "old" }).deliver({})).verdict, Verdict.DROPPED);
    assert.equal((await scene(2, { admission: "duplicate" }).deliver({})).verdict, Verdict.DROPPED);
    assert.equal((await scene(2, { admission: "beyond" }).deliver({})).verdict, Verdict.WAIT);
    assert.equal((await scene(2, { running: false }).deliver({})).verdict, Verdict.WAIT);
    assert.equal((await scene(2).deliver({ to: "elsewhere" })).verdict, Verdict.MOVED);
  });

  it("tells a contradiction to the VNode, without its content", async () => {
    const { deliver, received } = scene(2, { admission: "conflict" });
    assert.equal((await deliver({})).verdict, Verdict.DROPPED);
    assert.equal(received.length, 1);
    assert.equal(received[0]!.tensor, undefined);
  });
});

describe("a message that is asked for", () => {
  it("goes to the owner of the VNode that it is for, and to no other owner of the session", () => {
    const sent: string[] = [];
    const places = new Map(
      ["b", "c"].map((vnode) => [vnode, { pnode: `p-${vnode}`, epoch: 1, routes: "somewhere", replica: 0 }]),
    );
    const exchange = new Exchange({
      ...{ pnode: "p-a", log: silentLog, signing: undefined, onGone: () => {} },
      links: { to: ({ pnode }: { pnode: string }) => ({ deliver: () => sent.push(pnode) }) },
      resolver: { locate: (_: string, vnode: string) => [places.get(vnode)], refresh: () => {} },
    } as never);
    const sender = { session: "s" as SessionId, vnode: "a" as VNodeId, epoch: 1 };
    const message = { to: "b", name: { edge, step: 1, microbatch: 0 }, payload: {} } as never;
    for (const asker of ["c", "b"])
      exchange.sendToAsker(sender, { vnode: asker as VNodeId, pnode: `p-${asker}` }, message);
    assert.deepEqual(sent, ["p-b"]);
  });
});
