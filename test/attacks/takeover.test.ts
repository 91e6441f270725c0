// What strangers, other members and owners of other VNodes try on a session that trains: to replace its weights, to have
// honest machines blamed, to delete its data, to inject tensors, to steal, to blind those who watch. Each attempt fails with
// the error that says why, and the session goes on where it was.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { DcnrError } from "../../src/core/errors.ts";
import { hashOfContent, sha256 } from "../../src/core/hash.ts";
import type { Sha256 } from "../../src/core/ids.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { BlobSpace, DataType, Direction } from "../../src/protocol/gen/dcnr/v1/common_pb.ts";
import { ExchangeService, Verdict } from "../../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { BlobAction, PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { ServingService } from "../../src/protocol/gen/dcnr/v1/serving_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import type { Network } from "../../src/protocol/network.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { memoryState } from "../../src/states/in-memory.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { Lab, refused } from "./lab.ts";

let lab: Lab;
let session = "";
/** A machine of the attacker's that has joined, as everybody may; it hosts nothing. */
let member: Network;
let nobody: Network;
let stranger: Network;

before(async () => {
  lab = await Lab.open({ pnodes: 2 });
  session = await lab.train();
  nobody = lab.as();
  stranger = lab.as(newIdentity());
  member = (await lab.join(newIdentity())).network;
});
after(() => lab.close());

/** The weights that the attacker would like: all zero. */
async function zeros(vnode: string, step: number) {
  const tensors = new Map([["weights", { dtype: "float32" as const, shape: [4], data: new Float32Array(4) }]]);
  return memoryState({ metadata: { vnode, step: String(step) }, tensors });
}

const { grantBlob, recordDurable } = PNodeService.method;
const states = BlobSpace.STATES;

function durableOf(vnode: string, epoch: number, step: number, state: Sha256, bytes: number) {
  return { session, vnode, epoch: BigInt(epoch), step: BigInt(step), state, stateBytes: BigInt(bytes) };
}

describe("A: the takeover by recorded states", () => {
  it("fails for nobody, for a stranger's key, for a member that hosts nothing", async () => {
    const records = lab.vnodes(session);
    const steps = lab.session(session).identity.steps;
    for (const { vnode, epoch } of records) {
      const { state, manifest } = await zeros(vnode, steps);
      const upload = { session, hash: state, bytes: 100n, action: BlobAction.UPLOAD, space: states };
      const record = durableOf(vnode, epoch, steps, state, manifest.bytes);
      await refused(lab.call(nobody, grantBlob, upload), "unauthenticated", /machines that show a key/);
      await refused(lab.call(nobody, recordDurable, record), "unauthenticated");
      await refused(lab.call(stranger, grantBlob, upload), "permission_denied", /is not registered/);
      await refused(lab.call(stranger, recordDurable, record), "permission_denied");
      assert.equal((await lab.call(member, recordDurable, record)).accepted, false);
    }
    const upload = { session, hash: sha256("zeros"), bytes: 100n, action: BlobAction.UPLOAD, space: states };
    await refused(lab.call(member, grantBlob, upload), "permission_denied", /hosts no VNode of session/);
    await lab.nothingLost(session, records);
  });

  it("fails for the owner of another VNode, who could upload the weights", async () => {
    const records = lab.vnodes(session);
    const victim = lab.vnodeOn(session, 0);
    const steps = lab.session(session).identity.steps;
    const { state, manifest, blobs } = await zeros(victim.vnode, steps);
    for (const [hash, content] of blobs) await lab.blobs.states.put(hash, content, content.byteLength);
    const neighbour = lab.as(lab.keys[1]);
    for (const epoch of [victim.epoch, victim.epoch + 1, 2 ** 40]) {
      const record = durableOf(victim.vnode, epoch, steps, state, manifest.bytes);
      assert.equal((await lab.call(neighbour, recordDurable, record)).accepted, false);
    }
    await lab.nothingLost(session, records);
    for (const { durable } of lab.vnodes(session)) assert.equal(durable[String(steps)], undefined);
  });
});

describe("B: slander", () => {
  it("by other hashes for states that stand is neither recorded nor blamed on anybody", async () => {
    const records = lab.vnodes(session);
    for (const { vnode, epoch, durable } of records)
      for (const step of Object.keys(durable)) {
        const { state, manifest } = await zeros(vnode, Number(step));
        const record = durableOf(vnode, epoch, Number(step), state, manifest.bytes);
        assert.equal((await lab.call(member, recordDurable, record)).accepted, false);
      }
    await lab.nothingLost(session, records);
  });

  it("by evidence about a session in which the accuser has no part is not even told", async () => {
    const records = lab.vnodes(session);
    const { channel } = await lab.join(newIdentity());
    const name = { session, step: 1n, microbatch: 0, edge: "a.0>b.0", direction: Direction.FORWARD };
    const witness = (hash: string) => ({ pnode: lab.keys[0]?.id as string, epoch: 1n, hash: sha256(hash) });
    for (let i = 0; i < 50; i++)
      await channel.send({ event: { case: "evidence", value: { name, first: witness("a"), second: witness("b") } } });
    await lab.nothingLost(session, records);
    const { events } = await lab.call(nobody, FleetService.method.listEvents, { kindPrefix: "evidence" });
    assert.deepEqual(events, []);
  });
});

describe("C: having the collector delete what is not a state", () => {
  it("fails even for an owner, in whose name nothing but states can be recorded", async () => {
    const records = lab.vnodes(session);
    const own = lab.vnodeOn(session, 1);
    const network = lab.as(lab.keys[1]);
    const held = async () => (await Array.fromAsync(lab.blobs.datasets.list())).map(({ hash }) => hash).sort();
    const data = await held();
    assert.ok(data.length > 1);
    for (const hash of data) {
      const record = durableOf(own.vnode, own.epoch, lab.session(session).line + 3, hash, 4);
      await refused(lab.call(network, recordDurable, record), "aborted", /is not in the blob store/);
    }
    await lab.nothingLost(session, records);
    assert.deepEqual(await held(), data);
  });
});

describe("E: injected tensors", () => {
  const forged = (to: string, from: string, epoch: bigint, shape: number[]) => {
    const data = new Uint8Array(new Float32Array(shape.reduce((product, size) => product * size, 1)).fill(7).buffer);
    return {
      ...{ id: 1n, to, from, epoch, dtype: DataType.FLOAT32, shape, bytes: BigInt(data.byteLength), data },
      hash: hashOfContent({ dtype: "float32", shape, bytes: data }),
      name: {
        session,
        step: BigInt(lab.session(session).line + 2),
        ...{ microbatch: 0, edge: `${from}.0>${to}.0`, direction: Direction.FORWARD },
      },
    };
  };

  /** The shape that the edge carries is told to whoever sends another. */
  async function receiptOf(network: Network, at: number, to: string, from: string, epoch: bigint, shape = [2, 4]) {
    const channel = network.open(lab.pnodeAt(at), ExchangeService.method.exchange);
    try {
      await channel.send({ event: { case: "hello", value: { protocolMajor: 1 } } });
      await channel.send({ event: { case: "delivery", value: forged(to, from, epoch, shape) } });
      for await (const { event } of channel.incoming) if (event.case === "receipt") return event.value;
      throw new DcnrError("cancelled", "no receipt");
    } finally {
      channel.close();
    }
  }

  it("fail for nobody and for strangers, whatever epoch they name", async () => {
    const records = lab.vnodes(session);
    const { vnode } = lab.vnodeOn(session, 0);
    await refused(receiptOf(nobody, 0, vnode, "a", 1n << 40n), "unauthenticated");
    await refused(receiptOf(stranger, 0, vnode, "a", 1n << 40n), "permission_denied");
    await refused(receiptOf(member, 0, vnode, "a", 1n << 40n), "permission_denied");
    await lab.nothingLost(session, records);
  });

  it("are not stored from a peer that does not own the VNode which it names as the sender", async () => {
    const records = lab.vnodes(session);
    const ownerOf = ({ members }: VNodeRecord): string | undefined => members[0]?.pnode;
    let accused = 0;
    for (const [at, key] of lab.keys.entries()) {
      // It works in the session, and speaks for a VNode of another machine.
      const peer = lab.as(key);
      const here = records.filter((record) => ownerOf(record) === key.id);
      const elsewhere = records.filter((record) => ownerOf(record) !== key.id);
      for (const to of here)
        for (const from of elsewhere) {
          const { detail } = await receiptOf(peer, at, to.vnode, from.vnode, BigInt(from.epoch));
          const shape = /takes float32 \[([\d,]+)\] there/.exec(detail)?.[1]?.split(",").map(Number);
          if (shape === undefined) continue;
          for (const epoch of [BigInt(from.epoch), BigInt(from.epoch) + 1n, 1n << 40n]) {
            const receipt = await receiptOf(peer, at, to.vnode, from.vnode, epoch, shape);
            assert.notEqual(receipt.verdict, Verdict.STORED);
            if (receipt.detail.includes("does not own VNode")) accused++;
          }
        }
    }
    assert.ok(accused > 0, "all were refused for other reasons");
    await lab.nothingLost(session, records);
  });
});

describe("G: theft of weights and data", () => {
  it("fails: states and samples need an API key that may read, and a PNode gets what its own VNodes name", async () => {
    const records = lab.vnodes(session);
    const { listStates } = SessionService.method;
    await refused(lab.call(nobody, listStates, { session }), "unauthenticated");
    await refused(lab.call(member, listStates, { session }), "unauthenticated");
    await refused(lab.call(await lab.person("generate"), listStates, { session }), "permission_denied");
    const { identity, line } = lab.session(session);
    const here = lab.vnodeOn(session, 0);
    const wanted: [BlobSpace, string][] = [[BlobSpace.DATASETS, identity.dataset]];
    for await (const { hash } of lab.blobs.datasets.list()) wanted.push([BlobSpace.DATASETS, hash]);
    wanted.push([states, here.durable[String(line)]?.hash as string]);
    for (const [space, hash] of wanted) {
      const download = { session, hash, action: BlobAction.DOWNLOAD, space };
      await refused(lab.call(nobody, grantBlob, download), "unauthenticated");
      await refused(lab.call(stranger, grantBlob, download), "permission_denied");
      const outcome = await lab.call(member, grantBlob, download).then(
        () => "granted",
        (thrown: unknown) => DcnrError.from(thrown).code,
      );
      // Whoever asks again within a second is told to wait instead: looking into the store is not for free.
      assert.ok(outcome === "permission_denied" || outcome === "unavailable", outcome);
    }
    const other = lab.as(lab.keys[1]);
    const asked = lab.call(other, grantBlob, {
      ...{ session, action: BlobAction.DOWNLOAD, space: states },
      hash: wanted.at(-1)?.[1],
    });
    await refused(asked, "not_found", /no VNode of session .* that PNode .* hosts/);
    await lab.nothingLost(session, records);
  });
});

describe("H: blinding by large events", () => {
  it("fails: evidence and details of megabytes leave events, their saving and the fleet's view as they were", async () => {
    const records = lab.vnodes(session);
    const { channel } = await lab.join(newIdentity());
    const long = "x".repeat(1_200_000);
    for (let i = 0; i < 7; i++) {
      const name = { session, step: 1n, edge: long };
      // Whoever is sent away for it has not blinded anybody either.
      const value = { name, first: { hash: long }, second: { hash: long } };
      await channel.send({ event: { case: "evidence", value } }).catch(() => {});
      const vnodes = [{ session, vnode: "a", phase: long, detail: long, epoch: 1n }];
      await channel.send({ event: { case: "heartbeat", value: { sequence: BigInt(i), vnodes } } }).catch(() => {});
    }
    const most = 2n ** 64n - 1n;
    await channel
      .send({ event: { case: "heartbeat", value: { sequence: 9n, memoryUsedBytes: most } } })
      .catch(() => {});
    await lab.nothingLost(session, records);
    const { events } = await lab.call(nobody, FleetService.method.listEvents, {});
    for (const { message } of events) assert.ok(message.length < 3_000);
    const { pnodes } = await lab.call(nobody, FleetService.method.listPNodes, {});
    assert.ok(pnodes.length >= 3);
    for await (const _ of nobody.watch(lab.address, FleetService.method.watchFleet, {})) break;
    await lab.orchestrator.parts.context.events.flush();
    const { items } = await lab.store.list("event/");
    for (const { value } of items) assert.ok(value.length < 300_000);
  });
});

describe("I: answers from a PNode's own port", () => {
  it("are refused to everybody but orchestrators of the network", async () => {
    const { forwardTensors } = ServingService.method;
    const ask = (network: Network) => network.call(lab.pnodeAt(0), forwardTensors, { session }, { timeoutMs: 20_000 });
    const person = await lab.person("admin");
    for (const caller of [nobody, stranger, member, lab.as(lab.keys[1]), person])
      await refused(ask(caller), "permission_denied", /orchestrators/);
  });

  it("and whoever holds another key than the PNode is not taken for it", async () => {
    const address = withKey(lab.pnodes[0]?.address as string, newIdentity().id);
    const asked = lab
      .as(lab.networkKey)
      .call(address, ServingService.method.forwardTensors, { session }, { timeoutMs: 5_000 });
    await assert.rejects(asked, /key/);
  });
});

describe("N: space in the store", () => {
  it("is granted to owners alone, within the size of what may lie among states and within what an owner may leave unrecorded", async () => {
    const records = lab.vnodes(session);
    const owner = lab.as(lab.keys[1]);
    const ask = (network: Network, index: number, bytes: bigint) =>
      lab.call(network, grantBlob, {
        session,
        hash: sha256(`${index}`),
        bytes,
        action: BlobAction.UPLOAD,
        space: states,
      });
    await refused(ask(owner, 0, 5n << 30n), "invalid_argument", /at most 67108864/);
    let granted = 0;
    const fill = async () => {
      for (; granted < 1_000; granted++) await ask(owner, granted, 16n << 20n);
    };
    await refused(fill(), "resource_exhausted", /that it did not record/);
    assert.ok(granted >= 60 && granted <= 64, `${granted} grants of 16 MiB`);
    // The machine whose key was stolen is held up by it; its neighbour is not, and neither is lost.
    assert.equal(lab.session(session).status, "running");
    assert.deepEqual(
      lab.vnodes(session).map(({ epoch }) => epoch),
      records.map(({ epoch }) => epoch),
    );
  });
});
