import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { EdgeId, SessionId, VNodeId } from "../core/ids.ts";
import { silentLog } from "../core/world.ts";
import { DataType, Direction } from "../protocol/gen/dcnr/v1/common_pb.ts";
import { type DeliverySchema, ExchangeService, Verdict } from "../protocol/gen/dcnr/v1/exchange_pb.ts";
import type { Admission } from "../vnode/inbox.ts";
import type { MessageName } from "../vnode/names.ts";
import { hashOfWire } from "../vnode/wire.ts";
import { exchangeService } from "./exchange-server.ts";
import { MemoryNetwork } from "./memory.testing.ts";
import type { Receiver } from "./receiver.ts";
import type { Refusals } from "./refusals.ts";
import type { Resolver } from "./resolver.ts";
import type { StoredTensor } from "./retention.ts";

const edge = "a.0>b.0" as EdgeId;

/** A VNode `b` that takes [rows, 4] floats from `a`, and an exchange in front of it. */
function scene(rows: number, options: { admission?: Admission; owner?: boolean } = {}) {
  const received: { name: MessageName; tensor: StoredTensor | undefined; from: string }[] = [];
  const receiver: Receiver = {
    expects: (name) => (name.edge === edge ? { wire: "float32", shape: [rows, 4], from: "a" as VNodeId } : undefined),
    admit: () => options.admission ?? "wanted",
    receive: (name, _hash, tensor, from) => received.push({ name, tensor, from }),
    asked: (_names, asker) => asker.answer("gone"),
  };
  const network = new MemoryNetwork();
  const served = exchangeService({
    directory: { find: (_session: SessionId, vnode: VNodeId) => (vnode === "b" ? receiver : undefined) },
    resolver: { isOwner: () => options.owner ?? true } as unknown as Resolver,
    log: silentLog,
    refusals: { note: () => {} } as unknown as Refusals,
    deliverTo: () => {},
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
    hash: hashOfWire(tensor),
    data: content,
  };
  /** Sends one delivery and what belongs to it; gives the receipt. */
  const deliver = async (more: MessageInitShape<typeof DeliverySchema>, chunks: Uint8Array[] = []) => {
    await network.serve("p2", [served]);
    const channel = network.open("p2", ExchangeService.method.exchange);
    await channel.send({ event: { case: "hello", value: { protocolMajor: 1, pnode: "p1" } } });
    await channel.send({ event: { case: "delivery", value: { ...delivery, ...more } as never } });
    for (const data of chunks) await channel.send({ event: { case: "chunk", value: { id: 7n, data } } });
    for await (const { event } of channel.incoming) {
      channel.close();
      assert.equal(event.case, "receipt");
      return event.value as { verdict: Verdict; detail: string };
    }
    return assert.fail("a delivery is answered");
  };
  return { deliver, delivery, received, content, network, served };
}

const none = new Uint8Array(0);

describe("the exchange", () => {
  it("stores a tensor that the plan expects, and says who sent it", async () => {
    const { deliver, received, content } = scene(2);
    assert.equal((await deliver({})).verdict, Verdict.STORED);
    assert.deepEqual((await received[0]!.tensor!.load()).bytes, content);
    assert.equal(received[0]!.from, "2 p1");
  });

  it("puts a tensor together from chunks", async () => {
    const { deliver, received, content } = scene(100_000);
    const chunks = [content.subarray(0, 1 << 20), content.subarray(1 << 20)];
    assert.equal((await deliver({ data: none }, chunks)).verdict, Verdict.STORED);
    assert.deepEqual((await received[0]!.tensor!.load()).bytes, content);
  });

  it("refuses what the plan does not say, before it takes memory for it", async () => {
    const { deliver, delivery, received } = scene(2);
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
  });

  it("refuses NaN, and more bytes than were announced", async () => {
    const { deliver, received, content } = scene(2);
    const poisoned = content.slice();
    new Float32Array(poisoned.buffer)[5] = Number.NaN;
    const hash = hashOfWire({ dtype: "float32", shape: [2, 4], bytes: poisoned });
    assert.match((await deliver({ data: poisoned, hash })).detail, /NaN/);
    assert.equal((await deliver({ data: none }, [content.subarray(0, 20), content])).verdict, Verdict.REFUSED);
    assert.deepEqual(received, []);
  });

  it("refuses a zombie, and sends those who come too late or too early their way", async () => {
    assert.equal((await scene(2, { owner: false }).deliver({})).verdict, Verdict.REFUSED);
    assert.equal((await scene(2, { admission: "old" }).deliver({})).verdict, Verdict.DROPPED);
    assert.equal((await scene(2, { admission: "duplicate" }).deliver({})).verdict, Verdict.DROPPED);
    assert.equal((await scene(2, { admission: "beyond" }).deliver({})).verdict, Verdict.WAIT);
    assert.equal((await scene(2).deliver({ to: "elsewhere" })).verdict, Verdict.MOVED);
  });

  it("tells a contradiction to the VNode, without its content", async () => {
    const { deliver, received } = scene(2, { admission: "conflict" });
    assert.equal((await deliver({})).verdict, Verdict.DROPPED);
    assert.equal(received.length, 1);
    assert.equal(received[0]!.tensor, undefined);
  });
});
