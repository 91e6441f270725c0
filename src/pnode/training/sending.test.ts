import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { type ContentHash, hashOfContent } from "../../core/hash.ts";
import type { EdgeId, SessionId, VNodeId } from "../../core/ids.ts";
import { Tasks } from "../../core/tasks.ts";
import { silentLog } from "../../core/world.ts";
import type { Links } from "../../peer/links.ts";
import type { Parcel } from "../../peer/parcel.ts";
import type { Routes } from "../../protocol/routes/routes.ts";
import type { Resolver } from "../resolver.ts";
import { Exchange } from "./exchange.ts";
import type { Arrival, Receiver } from "./receiver.ts";
import { StoredTensor } from "./retention.ts";

const content = { dtype: "float32", shape: [4], bytes: new Uint8Array(16).fill(1) } as const;
const sender = { session: "s" as SessionId, vnode: "a" as VNodeId, epoch: 3 };
const name = { step: 1, microbatch: 0, edge: "a>b" as EdgeId, direction: "forward" } as const;

/** An exchange on p1 that knows who owns what; the receiver `b` is wherever `owners` say. */
function scene(owners: Readonly<Record<string, readonly string[]>>, hashOf: ContentHash = hashOfContent) {
  const received: Arrival[] = [];
  const parcels: Parcel[] = [];
  const receiver = {
    isRunning: true,
    admit: () => "wanted",
    receive: (arrival: Arrival) => received.push(arrival),
  } as unknown as Receiver;
  const locate = (_session: string, vnode: string) =>
    (owners[vnode] ?? []).map((pnode, replica) => ({ pnode, routes: pnode as Routes, epoch: 3, replica }));
  const exchange = new Exchange({
    pnode: "p1",
    links: { to: () => ({ deliver: (parcel: Parcel) => parcels.push(parcel) }) } as unknown as Links,
    resolver: { locate, refresh: () => {} } as unknown as Resolver,
    directory: { find: () => receiver },
    tasks: new Tasks(silentLog),
    log: silentLog,
    onGone: () => {},
    signing: undefined,
    hashOf,
  });
  const payload = new StoredTensor(content);
  exchange.send(sender, { name, to: "b" as VNodeId, hash: "", payload });
  return { received, parcels, payload };
}

describe("a message of a VNode", () => {
  it("that stays on its PNode is handed over as it lies in memory, without a hash", () => {
    const { received, parcels } = scene({ a: ["p1"], b: ["p1"] });
    assert.deepEqual(parcels, []);
    assert.equal(received[0]?.hash, "");
    assert.equal(received[0]?.tensor?.peek()?.bytes, content.bytes);
  });

  it("of which replicas elsewhere send their own has a hash, so that they can be compared", () => {
    const { received } = scene({ a: ["p1", "p2"], b: ["p1"] });
    assert.equal(received[0]?.hash, hashOfContent(content));
  });

  it("for several PNodes is sent from where it lies, under one hash that is taken once", async () => {
    const { parcels, payload, received } = scene({ a: ["p1"], b: ["p2", "p3"] });
    assert.deepEqual(received, []);
    const [first, second] = await Promise.all(parcels.map((parcel) => parcel.open()));
    assert.equal(first?.hash, hashOfContent(content));
    assert.equal(first?.content.bytes, content.bytes);
    assert.equal(second?.content.bytes, content.bytes);
    assert.equal(payload.hashOf({ ...content, shape: [2, 2] }), first?.hash, "later calls do not hash again");
    assert.equal(second?.hash, first?.hash);
  });

  it("is sent under the hash that another thread took, which holds for whoever asks later", async () => {
    let taken = 0;
    const aside: ContentHash = async (content) => {
      taken++;
      return hashOfContent(content);
    };
    const { parcels, payload } = scene({ a: ["p1"], b: ["p2"] }, aside);
    const opened = await parcels[0]?.open();
    await parcels[0]?.open();
    assert.equal(opened?.hash, hashOfContent(content));
    assert.equal(payload.knownHash, opened?.hash);
    assert.equal(taken, 1);
  });

  it("that was given up while it waited is not sent", async () => {
    const { parcels, payload } = scene({ a: ["p1"], b: ["p2"] });
    payload.release();
    await assert.rejects(async () => parcels[0]?.open());
  });
});
