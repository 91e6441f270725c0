// F and J: machines that claim to be what nobody has, and keys by the thousand. What they say of themselves buys them next to
// nothing where others have shown that they work, and what they leave behind goes.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { key, prefix } from "../../src/orchestrator/records/store-keys.ts";
import type { AttachResponse } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { Lab } from "./lab.ts";

let lab: Lab;
before(async () => {
  lab = await Lab.open({ pnodes: 2 });
});
after(() => lab.close());

const record = (id: string) => lab.orchestrator.parts.context.mirror.get(key.pnode(id));

describe("F: boasting", () => {
  it("does not get a machine more than a small share of a session, once others have worked", async () => {
    const session = await lab.train();
    await lab.until("both have worked", () => lab.keys.every(({ id }) => record(id)?.worked === true));
    const boasters = [newIdentity(), newIdentity(), newIdentity()];
    for (const identity of boasters) await lab.join(identity, () => {}, 4_000);
    for (const { id } of boasters) {
      assert.equal(record(id)?.worked, undefined);
      const node = lab.orchestrator.parts.capacity.fleet.get(id as never);
      assert.ok(node?.newcomer && node.gflops <= 4, `counts as ${node?.gflops} GFLOP/s`);
    }
    const second = await lab.createSession(999_999n);
    await lab.until("it is placed", () => lab.vnodes(second).every((one) => one?.members.length > 0));
    const honest = new Set(lab.keys.map(({ id }) => id as string));
    const theirs = lab.vnodes(second).filter(({ members }) => !honest.has(members[0]?.pnode as string));
    assert.ok(theirs.length <= 1, `${theirs.length} of ${lab.vnodes(second).length} VNodes`);
    assert.equal(lab.session(session).status, "running");
  });

  it("does not wait for its time either: one that has worked a little counts as fast as it was seen to work", async () => {
    const patient = newIdentity();
    let heard = 0n;
    const onTold = ({ event }: AttachResponse) => {
      if (event.case === "heartbeatAck") heard = event.value.sequence;
    };
    const { channel } = await lab.join(patient, onTold, 4_000);
    const { mirror } = lab.orchestrator.parts.context;
    await mirror.update(key.pnode(patient.id), (current) => current && { ...current, worked: true });
    const { fleet } = lab.orchestrator.parts.capacity;
    await lab.until("it is no newcomer", () => fleet.get(patient.id as never)?.newcomer === false);
    for (let sequence = 1n; sequence < 20n; sequence++) {
      const vnodes = mirror.under(prefix.vnodes).map(({ session, vnode, epoch }) => ({
        ...{ session, vnode, epoch: BigInt(epoch), stepMs: 1e-9 },
      }));
      await channel.send({ event: { case: "heartbeat", value: { sequence, vnodes } } });
    }
    await lab.until("all of it was heard", () => heard >= 19n);
    const node = fleet.get(patient.id as never);
    assert.ok(node && node.gflops <= 4, `counts as ${node?.gflops} GFLOP/s`);
  });
});

describe("J: keys by the thousand", () => {
  it("leave no records behind: machines that are gone and never worked are forgotten, those that worked are not", async () => {
    const { parts } = lab.orchestrator;
    const idle = Array.from({ length: 20 }, () => newIdentity());
    for (const identity of idle) {
      const { channel } = await lab.join(identity);
      await channel.send({ event: { case: "leave", value: { reason: "enough" } } });
      channel.close();
    }
    const gone = () => idle.filter(({ id }) => record(id)?.status === "left" || record(id)?.status === "lost").length;
    await lab.until("all of them are gone", () => gone() === idle.length);
    await parts.departed.look();
    assert.equal(gone(), idle.length, "one look is not enough: they may only be restarting");
    await parts.departed.look();
    const left = new Set(parts.context.mirror.under(prefix.pnodes).map(({ id }) => id as string));
    for (const { id } of idle) assert.ok(!left.has(id));
    for (const { id } of lab.keys) assert.ok(left.has(id));
    assert.equal((await lab.store.list("room/")).items.filter(({ key: name }) => !left.has(name.slice(5))).length, 0);
  });
});
