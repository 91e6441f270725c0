// Replicas of served models on the control plane: placed and re-placed as sessions are, and no sessions themselves.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { addressOf } from "../../simulation/boot.ts";
import { RoomChecker } from "../../simulation/checks/rooms.ts";
import { hasCode } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import { type ReplicaId, replicaIdOf } from "../../src/core/ids.ts";
import type { ModelRecord, ReplicaRecord, SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import { key } from "../../src/orchestrator/records/store-keys.ts";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { InferenceService } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { NetworkService } from "../../src/protocol/gen/dcnr/v1/network_pb.ts";
import { PNodeService } from "../../src/protocol/gen/dcnr/v1/pnode_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import type { ActingPNode } from "./acting-pnode.ts";
import { Stage } from "./stage.ts";

const isDone = (record: SessionRecord) => record.status === "done";

interface Served {
  readonly stage: Stage;
  readonly nodes: readonly ActingPNode[];
  readonly session: string;
  readonly replica: ReplicaId;
  readonly rooms: RoomChecker;
}

/** A session that is done, and one replica that serves its states. */
async function served(): Promise<Served> {
  const stage = new Stage();
  const rooms = new RoomChecker((_atMs, message) => assert.fail(message));
  stage.store.onWrite((write) => rooms.wrote(write));
  await stage.orchestrator("o1");
  const nodes = Array.from({ length: 2 }, (_, i) => stage.pnode(`p${i}`, { stepMs: 50 }));
  await stage.until("all PNodes attach", () => nodes.every((one) => one.attachedTo !== ""));
  const session = await stage.session();
  await stage.untilRecord("the session is done", `session/${session}`, isDone);
  const { model } = await stage.call(InferenceService.method.serveModel, { source: session, name: "speaker" });
  const replica = model?.sessions[0] as ReplicaId;
  await stage.until("the replica is hosted", () => hostsOf(nodes, replica) === 3);
  return { stage, nodes, session, replica, rooms };
}

function hostsOf(nodes: readonly ActingPNode[], replica: string): number {
  return nodes.reduce(
    (sum, { hosted }) => sum + [...hosted.keys()].filter((name) => name.startsWith(replica)).length,
    0,
  );
}

describe("a replica of a served model", () => {
  it("is told to PNodes as one that answers, with the states and the definition of what it serves", async () => {
    const { stage, nodes, session, replica } = await served();
    const { identity } = (await stage.sessionRecord(session)) as SessionRecord;
    const told = nodes.flatMap(({ hosted }) => [...hosted.values()]).map(({ assignment }) => assignment);
    assert.deepEqual(
      told.map((one) => [one.session, one.work.case]),
      told.map(() => [replica, "answering"]),
    );
    const asPNode = stage.fabric.network((nodes[0] as ActingPNode).host);
    const described = await stage.settled(
      asPNode.call(addressOf("o1"), PNodeService.method.describeSession, { session: replica }),
    );
    assert.ok(described.work.case === "serving");
    assert.equal(described.work.value.definition, identity.definition);
    assert.equal(sha256(described.definition), identity.definition);
    assert.equal(described.work.value.numerics, identity.numerics);
    for (const { vnode, durable } of await stage.vnodes(session))
      assert.equal(described.work.value.states[vnode], durable["20"]?.hash);
    await stage.stop();
  });

  it("is no session: it is not listed, shown, suspended or deleted as one, and nothing is recorded for it", async () => {
    const { stage, nodes, session, replica } = await served();
    const { sessions } = await stage.call(SessionService.method.listSessions, {});
    assert.deepEqual(
      sessions.map(({ id }) => id),
      [session],
    );
    for (const method of [SessionService.method.suspendSession, SessionService.method.deleteSession] as const)
      await assert.rejects(stage.call(method, { id: replica }), (error) => hasCode(error, "invalid_argument"));
    const host = nodes.find(({ hosted }) => hosted.size > 0) as ActingPNode;
    const [{ assignment }] = host.hosted.values() as unknown as [{ assignment: Parameters<ActingPNode["record"]>[0] }];
    const before = await stage.record(`vnode/${replica}/${assignment.vnode}`);
    assert.notEqual(await stage.settled(host.record(assignment, 1)), true);
    assert.deepEqual(await stage.record(`vnode/${replica}/${assignment.vnode}`), before);
    const { vnodes } = await stage.call(FleetService.method.listVNodes, { session: replica });
    assert.equal(vnodes.length, 3, "who asks for it by name sees where its VNodes are");
    await stage.stop();
  });

  it("is ready at every orchestrator, whichever its PNodes are attached to", async () => {
    const { stage } = await served();
    await stage.orchestrator("o2");
    let status = "";
    for (let second = 0; second < 30 && status !== "ready"; second++) {
      await stage.pass(1_000);
      const { models } = await stage.call(InferenceService.method.listModels, {}, "o2");
      status = models[0]?.status ?? "";
    }
    assert.equal(status, "ready");
    await stage.stop();
  });

  it("gets other owners when a PNode is lost", async () => {
    const { stage, nodes, replica } = await served();
    const victim = nodes.find((one) => hostsOf([one], replica) > 0) as ActingPNode;
    victim.kill();
    const others = nodes.filter((one) => one !== victim);
    await stage.until("others host it", () => hostsOf(others, replica) === 3);
    await stage.stop();
  });

  it("leaves nothing behind when its model is stopped", async () => {
    const { stage, replica, rooms } = await served();
    await assert.rejects(stage.call(NetworkService.method.deleteNetwork, { id: "chain" }), /model speaker serves/);
    await stage.call(InferenceService.method.stopModel, { name: "speaker" });
    await stage.until("no room is claimed", () => rooms.claims().length === 0);
    await stage.pass(2_000);
    assert.deepEqual(await stage.vnodes(replica), []);
    for (const kind of ["replica", "lease"]) assert.equal(await stage.record(`${kind}/${replica}`), undefined);
    await stage.stop();
  });

  it("has no time limit: one that is asked for is refused", async () => {
    const { stage, session } = await served();
    const requirements = { maxRuntimeSeconds: 60 };
    const wanted = { source: session, name: "brief", requirements };
    await assert.rejects(stage.call(InferenceService.method.serveModel, wanted), /no time limit/);
    await stage.stop();
  });

  it("ends after a while if no model names it, failed or not, and stays if one does", async () => {
    const { stage, replica } = await served();
    const { mirror } = stage.orchestrators.get("o1")?.parts.context ?? assert.fail("it runs");
    const record = (await stage.record<ReplicaRecord>(`replica/${replica}`)) as ReplicaRecord;
    const nameless = ["0".repeat(12), "1".repeat(12)].map((nonce) => replicaIdOf("speaker", nonce));
    for (const [index, id] of nameless.entries())
      await stage.settled(
        mirror.update(key.replica(id), () => ({
          ...record,
          id,
          status: index === 0 ? ("running" as const) : ("failed" as const),
        })),
      );
    const there = (id: string) => stage.record(`replica/${id}`);
    await stage.pass(60_000);
    for (const id of nameless) assert.ok(await there(id), "whoever makes it may still be about to name it");
    await stage.pass(240_000);
    for (const id of nameless) assert.equal(await there(id), undefined);
    assert.ok(await there(replica));
    await stage.stop();
  });

  it("of a build in which it posed as a session is ended, and its model can be served again", async () => {
    const { stage, session, replica } = await served();
    const trained = (await stage.sessionRecord(session)) as SessionRecord;
    const { replicas: _, ...model } = (await stage.record<ModelRecord>("model/speaker")) as ModelRecord;
    const { stop } = stage.orchestrators.get("o1") ?? assert.fail("it runs");
    await stage.settled(stop());
    stage.orchestrators.delete("o1");
    const former = { ...trained, id: "serve-speaker-1", status: "running", serving: { model: "speaker" } };
    await put(stage, "session/serve-speaker-1", former);
    await put(stage, "model/speaker", { ...model, sessions: ["serve-speaker-1"] });
    await stage.orchestrator("o2");
    await stage.pass(60_000);
    assert.equal(await stage.sessionRecord("serve-speaker-1"), undefined);
    assert.equal((await stage.sessionRecord(session))?.status, "done", "what was trained stays");
    const { models } = await stage.call(InferenceService.method.listModels, {});
    assert.deepEqual(
      models.map(({ name, status }) => [name, status]),
      [["speaker", "stopped"]],
    );
    const again = await stage.call(InferenceService.method.serveModel, { source: session, name: "speaker" });
    assert.notEqual(again.model?.sessions[0], replica);
    assert.equal(again.model?.replicas, 1);
    await stage.stop();
  });
});

async function put(stage: Stage, storeKey: string, value: object): Promise<void> {
  const version = (await stage.store.inner.get(storeKey))?.version ?? 0;
  assert.ok(await stage.store.inner.put(storeKey, JSON.stringify(value), version));
}
