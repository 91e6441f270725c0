// Room on PNodes is claimed before anybody owns anything there: sessions that wait together, orchestrators that race,
// and one that dies between the claim and the owner. Whatever happens, nobody hosts more than its owner lends.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RoomChecker } from "../../simulation/checks/rooms.ts";
import type { PNodeId, SessionId, VNodeId } from "../../src/core/ids.ts";
import type { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { RoomRecord } from "../../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { key } from "../../src/orchestrator/records/store-keys.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { writeMembers } from "../../src/orchestrator/workloads/recovery.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { Stage } from "./stage.ts";

const megabyte = 2 ** 20;
/** Three VNodes of the chain need a little over 12 MB beside what a PNode keeps for itself. */
const roomForOne = { limits: { memoryBytes: BigInt(141 * megabyte) } };

function watched(stage: Stage): { checker: RoomChecker; wrong: string[] } {
  const wrong: string[] = [];
  const checker = new RoomChecker((atMs, message) => wrong.push(`${atMs}: ${message}`));
  stage.store.onWrite((write) => checker.wrote(write));
  return { checker, wrong };
}

async function statuses(stage: Stage, sessions: readonly string[]): Promise<string[]> {
  const records = await Promise.all(sessions.map((id) => stage.sessionRecord(id)));
  return records.map((record) => record?.status ?? "");
}

const done = (stage: Stage, session: string) =>
  stage.untilRecord<SessionRecord>(
    `${session} is done`,
    `session/${session}`,
    ({ status }) => status === "done",
    600_000,
  );

describe("room on PNodes", () => {
  it("goes to the oldest of three sessions that wait for one PNode with room for one; the others follow", async () => {
    const stage = new Stage();
    const { checker, wrong } = watched(stage);
    await stage.orchestrator("o1");
    const sessions = [await stage.session(), await stage.session({ seed: 2n }), await stage.session({ seed: 3n })];
    await stage.pass(1_000);
    assert.deepEqual(await statuses(stage, sessions), ["waiting", "waiting", "waiting"]);
    stage.pnode("p0", { stepMs: 100, register: roomForOne });
    await stage.pass(1_000);
    assert.deepEqual(await statuses(stage, sessions), ["running", "waiting", "waiting"]);
    const { reason } = (await stage.sessionRecord(sessions[1] as string)) as SessionRecord;
    assert.match(reason, /needs 5 MB of memory; the most that is free on one of 1 PNode is/);
    for (const session of sessions) await done(stage, session);
    assert.deepEqual(wrong, []);
    assert.ok(checker.mostShare > 0.9, "there was room for one, and it was used");
    await stage.pass(100);
    assert.deepEqual(checker.claims(), [], "all of it was given back");
    await stage.stop();
  });

  it("is given back by the younger of two sessions that each lost a part and hold what the other needs", async () => {
    for (const orchestrators of [1, 2]) {
      const stage = new Stage();
      const { wrong } = watched(stage);
      for (let i = 1; i <= orchestrators; i++) await stage.orchestrator(`o${i}`);
      stage.pnode("p0", { stepMs: 2_000, register: roomForOne });
      const lost = stage.pnode("p1", { stepMs: 2_000, register: roomForOne });
      await stage.pass(1_000);
      const sessions = [await stage.session({ spread: 2 }), await stage.session({ spread: 2, seed: 2n })];
      await stage.pass(2_000);
      assert.deepEqual(await statuses(stage, sessions), ["running", "running"]);
      lost.kill();
      // Room for one is left, and both hold some of it.
      await stage.pass(8_000);
      assert.deepEqual(await statuses(stage, sessions), ["waiting", "waiting"]);
      for (const session of sessions) await done(stage, session);
      assert.deepEqual(wrong, []);
      await stage.stop();
    }
  });

  it("is never handed out twice by orchestrators that race, with a store that loses replies and hints", async () => {
    for (const seed of [1, 2, 3]) {
      const stage = new Stage(seed);
      const { checker, wrong } = watched(stage);
      const names = ["o1", "o2", "o3"];
      for (const name of names) await stage.orchestrator(name);
      const sessions: string[] = [];
      for (let i = 0; i < 6; i++) {
        const name = names[i % names.length] as string;
        const session = await stage.session({ seed: BigInt(i + 1), steps: 4n }, name, false);
        const { leases } = (stage.orchestrators.get(name) as Orchestrator).parts;
        assert.ok(await stage.settled(leases.hold(session as SessionId)));
        await stage.call(SessionService.method.startSession, { id: session }, name);
        sessions.push(session);
      }
      stage.store.faults = { replyLost: 0.03, requestLost: 0.03, hintDropped: 0.2, hintDelayMs: 200 };
      const nodes = Array.from({ length: 2 }, (_, i) => stage.pnode(`p${i}`, { stepMs: 50, register: roomForOne }));
      await stage.pass(3_000);
      nodes[0]?.breakStream();
      await stage.pass(3_000);
      for (const session of sessions) await done(stage, session);
      stage.store.faults = { replyLost: 0, requestLost: 0, hintDropped: 0, hintDelayMs: 5 };
      await stage.pass(30_000);
      assert.deepEqual(wrong, [], `seed ${seed}`);
      assert.deepEqual(checker.claims(), [], `seed ${seed}: nothing is left`);
      await stage.stop();
    }
  });

  it("is swept by another orchestrator when the one that claimed it dies before it wrote an owner", async () => {
    const stage = new Stage();
    const { checker, wrong } = watched(stage);
    await stage.orchestrator("o1");
    await stage.orchestrator("o2");
    stage.pnode("p0", { stepMs: 100, register: roomForOne, orchestrators: ["o2.test:7400"] });
    await stage.pass(500);
    let died = false;
    stage.store.onWrite(({ key: written, host }) => {
      if (died || host !== "o1" || !written.startsWith("room/")) return;
      died = true;
      stage.world.host("o1")?.crash(false);
    });
    const session = await stage.session({}, "o1", false);
    // Whoever has the session decides: it is o1, however fast the other one is.
    const { leases } = (stage.orchestrators.get("o1") as Orchestrator).parts;
    assert.ok(await stage.settled(leases.hold(session as SessionId)));
    await stage.call(SessionService.method.startSession, { id: session }, "o1").catch(() => {});
    await stage.until("o1 dies with its claim", () => died);
    const { claims } = (await stage.record<RoomRecord>("room/p0")) as RoomRecord;
    assert.equal(Object.keys(claims).length, 3);
    assert.ok((await stage.vnodes(session)).every((one) => one.members.length === 0));
    await done(stage, session);
    await stage.pass(100);
    assert.deepEqual(wrong, []);
    assert.deepEqual(checker.claims(), []);
    stage.orchestrators.delete("o1");
    await stage.stop();
  });

  it("is given back when a session is suspended, and when a PNode is lost", async () => {
    const stage = new Stage();
    const { checker, wrong } = watched(stage);
    await stage.orchestrator("o1");
    const nodes = [stage.pnode("p0", { stepMs: 100, register: roomForOne }), stage.pnode("p1", { stepMs: 100 })];
    const session = await stage.session({ steps: 1_000n });
    await stage.until("it is hosted", () => nodes.every((one) => one.hosted.size > 0));
    nodes[0]?.kill();
    await stage.until("p1 hosts all", () => nodes[1]?.hosted.size === 3);
    await stage.pass(100);
    assert.deepEqual((await stage.record<RoomRecord>("room/p0"))?.claims, {});
    assert.equal(checker.claims().length, 3);
    await stage.call(SessionService.method.suspendSession, { id: session });
    await stage.pass(500);
    assert.deepEqual(checker.claims(), []);
    assert.deepEqual(wrong, []);
    await stage.stop();
  });
});

describe("the owners of a VNode", () => {
  it("are written under the epoch after the one that was seen, once, and the claim of who came too late is left", async () => {
    const stage = new Stage();
    const { parts } = await stage.orchestrator("o1");
    stage.pnode("p0");
    stage.pnode("p1");
    await stage.pass(500);
    const seen: VNodeRecord = {
      session: "s" as SessionId,
      vnode: "v" as VNodeId,
      epoch: 4,
      members: [],
      durable: {},
      stepHashes: {},
      failures: [],
      memoryBytes: 1,
      flops: 1,
    };
    const name = key.vnode(seen.session, seen.vnode);
    await stage.settled(parts.context.mirror.update<VNodeRecord>(name, () => seen));
    const decision = (pnode: string) => ({
      vnode: seen.vnode,
      copy: 0,
      pnode: pnode as PNodeId,
      reason: "",
      claim: `claim on ${pnode}`,
      life: 1,
    });
    const first = await stage.settled(writeMembers(parts.context, seen, [decision("p0")], 1));
    const second = await stage.settled(writeMembers(parts.context, seen, [decision("p1")], 2));
    const record = await stage.record<VNodeRecord>(name);
    assert.equal(record?.epoch, 5);
    assert.deepEqual(
      record?.members.map(({ pnode, since, claim }) => ({ pnode, since, claim })),
      [{ pnode: "p0", since: 5, claim: "claim on p0" }],
    );
    assert.deepEqual(first, []);
    assert.deepEqual(
      second.map(({ claim }) => claim),
      ["claim on p1"],
    );
    await stage.stop();
  });
});
