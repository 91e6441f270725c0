// The life of sessions on the control plane: placed, re-placed, done; nothing lost when anything dies.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { StepRecord, VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { SystemService } from "../../src/protocol/gen/dcnr/v1/system_pb.ts";
import { type ActingPNode, actedState, startOf } from "./acting-pnode.ts";
import { Stage } from "./stage.ts";

const isDone = (record: SessionRecord) => record.status === "done";

async function running(
  stage: Stage,
  pnodes: number,
  settings: Record<string, unknown> = {},
): Promise<{ session: string; nodes: ActingPNode[] }> {
  const nodes = Array.from({ length: pnodes }, (_, i) => stage.pnode(`p${i}`, { stepMs: 100 }));
  await stage.until("all PNodes attach", () => nodes.every((one) => one.attachedTo !== ""));
  const session = await stage.session(settings);
  await stage.until("all VNodes are hosted", () => nodes.reduce((sum, one) => sum + one.hosted.size, 0) >= 3);
  return { session, nodes };
}

describe("a session on the control plane", () => {
  it("is placed, reported, rooted in id order, and done", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session } = await running(stage, 3);
    const record = await stage.untilRecord("the session is done", `session/${session}`, isDone);
    assert.equal(record.line, 20);
    const { roots } = await stage.call(SessionService.method.listStepRoots, { session });
    assert.deepEqual(
      roots.map((one) => Number(one.step)),
      Array.from({ length: 20 }, (_, i) => i + 1),
    );
    const vnodes = [...record.vnodes];
    assert.deepEqual(vnodes, [...vnodes].sort());
    for (const { step, root } of roots)
      assert.equal(root, sha256(...vnodes.map((vnode) => sha256(`hash of ${vnode} after ${step}`))));
    for (const vnode of vnodes) {
      const what = `nobody owns ${vnode} any more`;
      const owned = `vnode/${session}/${vnode}`;
      const released = await stage.untilRecord<VNodeRecord>(what, owned, (one) => one.members.length === 0);
      assert.ok(released.durable["20"], "last states are kept");
    }
    await stage.stop();
  });

  it("is found again, done or not, by whoever repeats the call that made it", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    await running(stage, 3);
    const settings = { network: "chain", dataset: "data", split: "all", steps: 4n, batch: 4, numerics: "reference" };
    const request = { start: true, idempotencyKey: "once", settings };
    const made = async () => (await stage.call(SessionService.method.createSession, request)).session?.id;
    const id = await made();
    await stage.untilRecord("the session is done", `session/${id}`, isDone);
    assert.equal(await made(), id);
    await stage.stop();
  });

  it("is refused where others could not repeat what they have to check", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    await running(stage, 3);
    const settings = { network: "chain", dataset: "data", split: "all", steps: 4n, batch: 4, numerics: "reference" };
    const create = (assurance: string) =>
      stage.call(SessionService.method.createSession, {
        settings: { ...settings, batch: 256, microbatches: 256, checkpointEvery: 1_000, assurance },
      });
    await assert.rejects(create("checked"), /messages come to VNode .*: choose a smaller checkpoint_every/);
    assert.ok((await create("none")).session);
    await stage.stop();
  });

  it("waits with a reason until somebody can host it", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const session = await stage.session();
    const record = await stage.untilRecord<SessionRecord>(
      "it waits",
      `session/${session}`,
      (one) => one.status === "waiting",
    );
    assert.match(record.reason, /no PNode is online/);
    stage.pnode("p0", { stepMs: 50 });
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    await stage.stop();
  });

  it("gives the VNodes of a killed PNode to others within a second, under a higher epoch", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 3);
    const victim = nodes.find((one) => one.hosted.size > 0) as ActingPNode;
    const before = new Map((await stage.vnodes(session)).map((one) => [one.vnode, one]));
    const lost = new Set(Array.from(victim.hosted.values(), (one) => one.assignment.vnode));
    const diedMs = stage.nowMs;
    victim.kill();
    const others = nodes.filter((one) => one !== victim);
    const hosts = (vnode: string) => others.some((one) => one.hosted.has(`${session}/${vnode}`));
    await stage.until("others host what was lost", () => Array.from(lost).every(hosts));
    assert.ok(stage.nowMs - diedMs < 1_000, `it took ${stage.nowMs - diedMs} ms`);
    for (const after of await stage.vnodes(session)) {
      const moved = lost.has(after.vnode);
      assert.equal(
        after.epoch > (before.get(after.vnode)?.epoch as number),
        moved,
        `only lost VNodes move (${after.vnode})`,
      );
    }
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    await stage.stop();
  });

  it("tells of a loss and of the recovery in one line each, with the step and what it cost", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 3, { steps: 1_000n, checkpointEvery: 5 });
    await stage.untilRecord<SessionRecord>("there is a line", `session/${session}`, ({ line }) => line >= 5);
    const victim = nodes.find((one) => one.hosted.size > 0) as ActingPNode;
    victim.kill();
    const told = async (kindPrefix: string) =>
      (await stage.call(FleetService.method.listEvents, { session, kindPrefix })).events;
    await stage.pass(10_000);
    const [disturbed, ...more] = await told("session.disturbed");
    assert.deepEqual(more, []);
    assert.match(disturbed?.message ?? "", /^p\d is lost at step \d+: its (VNode goes|\d VNodes go) elsewhere$/);
    const recovered = await told("session.recovered");
    assert.equal(recovered.length, 1, "told once");
    assert.match(recovered[0]?.message ?? "", /^p\d was lost at step \d+; back in [\d.]+ m?s; nothing lost/);
    assert.equal(recovered[0]?.pnode, disturbed?.pnode);
    assert.equal(recovered[0]?.step, disturbed?.step);
    await stage.stop();
  });

  it("lets others load what a PNode in doubt hosts, and leaves it there if the PNode comes back", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 3, { steps: 1_000n });
    await stage.untilRecord<SessionRecord>("there is a line", `session/${session}`, ({ line }) => line >= 2);
    const victim = nodes.find((one) => one.hosted.size > 0) as ActingPNode;
    const others = nodes.filter((one) => one !== victim);
    const hosted = Array.from(victim.hosted.values(), (one) => one.assignment.vnode).sort();
    const before = await stage.vnodes(session);
    victim.breakStream();
    await stage.until("others prepare", () => others.some((one) => one.prepared.length > 0));
    const prepared = others.flatMap((one) => one.prepared);
    assert.deepEqual(prepared.map((one) => one.vnode).sort(), hosted);
    for (const { vnode, work } of prepared) {
      assert.ok(work.case === "learning");
      const { line, state } = work.value;
      assert.equal(
        state,
        before.find((one) => one.vnode === vnode)?.durable[String(line)]?.hash,
        "the state of the line",
      );
    }
    await stage.until("it is back", () => victim.attachedTo !== "");
    await stage.pass(3_000);
    const after = await stage.vnodes(session);
    assert.deepEqual(
      after.map((one) => one.epoch),
      before.map((one) => one.epoch),
      "nothing has moved",
    );
    victim.kill();
    const hosts = (vnode: string) =>
      others.find((one) => one.prepared.some((each) => each.vnode === vnode))?.hosted.has(`${session}/${vnode}`);
    await stage.until("those who prepared host them", () => hosted.every((vnode) => hosts(vnode)), 2_000);
    await stage.stop();
  });

  it("replaces a PNode that is silent for 3 s, and refuses what it records afterwards", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 3, { steps: 1_000n });
    const victim = nodes.find((one) => one.hosted.size > 0) as ActingPNode;
    const old = Array.from(victim.hosted.values())[0]?.assignment as NonNullable<
      ReturnType<typeof victim.hosted.get>
    >["assignment"];
    victim.host.pause();
    const pausedMs = stage.nowMs;
    await stage.untilRecord<VNodeRecord>(
      "it has moved",
      `vnode/${session}/${old.vnode}`,
      (one) => one.members[0]?.pnode !== victim.id,
    );
    assert.ok(stage.nowMs - pausedMs < 4_000, `it took ${stage.nowMs - pausedMs} ms`);
    await stage.pass(2_000);
    assert.equal((await stage.pnodeRecord(victim.id))?.status, "lost", "and it stays lost");
    victim.host.resume();
    assert.equal(await stage.settled(victim.record(old, 8)), false, "a zombie's checkpoint is refused");
    const record = await stage.record<VNodeRecord>(`vnode/${session}/${old.vnode}`);
    assert.equal(
      record?.members.some((one) => one.pnode === victim.id && one.since <= Number(old.epoch)),
      false,
    );
    await stage.stop();
  });

  it("hands over before a PNode leaves", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 3);
    const leaver = nodes.find((one) => one.hosted.size > 0) as ActingPNode;
    await stage.settled(leaver.leave());
    await stage.until("the leave is granted", () => leaver.leaveGranted);
    assert.ok(
      (await stage.vnodes(session)).every((one) => one.members.length === 1 && one.members[0]?.pnode !== leaver.id),
    );
    leaver.detach();
    await stage.pass(5_000);
    assert.equal((await stage.pnodeRecord(leaver.id))?.status, "left");
    assert.equal((await stage.pnodeRecord(leaver.id))?.history.failures, 0, "leaving is no failure");
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    await stage.stop();
  });

  it("keeps a state that stands, whatever another PNode reports for the step", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 1, { steps: 1_000n });
    const node = nodes[0] as ActingPNode;
    const record = await stage.untilRecord<VNodeRecord>(
      "a state is durable",
      `vnode/${session}/a`,
      (one) => one.durable["4"] !== undefined,
    );
    const assignment = node.hosted.get(`${session}/a`)?.assignment;
    assert.ok(assignment);
    const line = (await stage.sessionRecord(session))?.line ?? 0;
    const newest = Math.max(
      line,
      ...Object.keys((await stage.record<VNodeRecord>(`vnode/${session}/a`))?.durable ?? {}).map(Number),
    );
    const liar = stage.pnode("liar", { lie: () => true, key: "p0", persistent: false });
    const outcome = await stage.settled(liar.record(assignment, newest));
    assert.equal(outcome, undefined);
    assert.ok(
      liar.errors.some((error) => error.code === "already_exists"),
      "the report is refused with a sentence",
    );
    const after = await stage.record<VNodeRecord>(`vnode/${session}/a`);
    assert.equal(after?.durable[String(newest)]?.hash, (await actedState(session, "a", newest)).state);
    assert.ok(record.epoch > 0);
    const { events } = await stage.call(FleetService.method.listEvents, { kindPrefix: "vnode.disagreement" });
    assert.equal(events.length, 1);
    await stage.stop();
  });

  it("goes back to the line before when a checkpoint of the line is damaged, and still finishes", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 2);
    const advanced = await stage.untilRecord<SessionRecord>("two lines", `session/${session}`, (one) => one.line >= 4);
    const record = (await stage.record<VNodeRecord>(`vnode/${session}/a`)) as VNodeRecord;
    const hash = record.durable[String(advanced.line)]?.hash;
    assert.ok(hash);
    stage.blobs.damage(hash);
    const host = nodes.find((one) => one.hosted.has(`${session}/a`)) as ActingPNode;
    host.failing = { vnode: "a", detail: "the state is damaged", damagedState: hash };
    await stage.until(
      "the event is told",
      () => (stage.orchestrators.get("o1")?.parts.context.events.list({ kindPrefix: "state.damaged" }).length ?? 0) > 0,
    );
    host.failing = undefined;
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    await stage.stop();
  });

  it("fails with the reason when a VNode fails wherever it runs", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 4, { steps: 1_000n });
    for (const node of nodes) node.failing = { vnode: "c", detail: "NaN in the output of c at step 3" };
    const record = await stage.untilRecord<SessionRecord>(
      "it fails",
      `session/${session}`,
      (one) => one.status === "failed",
    );
    assert.match(record.reason, /VNode c failed on 3 PNodes, last with: NaN in the output of c at step 3/);
    await stage.stop();
  });

  it("is suspended and resumed from its line, and refuses other settings by name", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 2);
    await stage.untilRecord<SessionRecord>("a line", `session/${session}`, (one) => one.line >= 4);
    await stage.call(SessionService.method.suspendSession, { id: session });
    await stage.until("nobody hosts it", () => nodes.every((one) => one.hosted.size === 0));
    const line = (await stage.sessionRecord(session))?.line as number;
    const expected = {
      network: "chain",
      dataset: "data",
      split: "all",
      steps: 20n,
      batch: 4,
      microbatches: 2,
      numerics: "reference",
      seed: 2n,
    };
    await assert.rejects(
      stage.call(SessionService.method.startSession, { id: session, expected }),
      (error: Error) => hasCode(error, "failed_precondition") && /seed was 1, now 2/.test(error.message),
    );
    await stage.call(SessionService.method.startSession, { id: session, expected: { ...expected, seed: 1n } });
    await stage.until("it is hosted again", () => nodes.some((one) => one.hosted.size > 0));
    const lines = nodes.flatMap((one) => Array.from(one.hosted.values(), ({ assignment }) => startOf(assignment)));
    assert.ok(lines.every((one) => one >= line));
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    await stage.stop();
  });

  it("leaves nothing behind when it is deleted", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 2, { steps: 1_000n });
    await stage.untilRecord<SessionRecord>("a line", `session/${session}`, (one) => one.line >= 2);
    await stage.call(SessionService.method.deleteSession, { id: session });
    await stage.until("nobody hosts it", () => nodes.every((one) => one.hosted.size === 0));
    await stage.pass(6_000);
    for (const prefix of [`session/${session}`, `vnode/${session}/`, `step/${session}/`, `lease/${session}`])
      assert.deepEqual(
        (await stage.store.inner.list(prefix)).items.map((item) => item.key),
        [],
      );
    await stage.stop();
  });

  it("runs each VNode on two owners with replicas, and the loss of one moves nothing else", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 4, { replicas: 2, steps: 1_000n });
    await stage.untilRecord<VNodeRecord>("both copies", `vnode/${session}/c`, (one) => one.members.length === 2);
    await stage.pass(500);
    for (const record of await stage.vnodes(session))
      assert.equal(new Set(record.members.map((one) => one.pnode)).size, 2);
    const victim = nodes.find((one) => one.hosted.size > 0) as ActingPNode;
    const kept = new Map(nodes.filter((one) => one !== victim).map((one) => [one.id, new Set(one.hosted.keys())]));
    victim.kill();
    await stage.pass(3_000);
    for (const node of nodes)
      for (const name of kept.get(node.id) ?? []) assert.ok(node.hosted.has(name), `${node.id} keeps ${name}`);
    for (const record of await stage.vnodes(session)) assert.equal(record.members.length, 2);
    await stage.stop();
  });

  it("collects checkpoints below the line and keeps those of the line and the one before", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1", { garbageDelayMs: 1_000 });
    const { session } = await running(stage, 2);
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    await stage.pass(5_000);
    const left = new Set<string>();
    for await (const { hash } of stage.blobs.inner.states.list()) left.add(hash);
    for (const vnode of ["a", "b", "c"]) {
      for (const hash of (await actedState(session, vnode, 20)).blobs.keys())
        assert.ok(left.has(hash), "the last state is there, manifest and parts");
      for (const hash of (await actedState(session, vnode, 4)).blobs.keys())
        assert.ok(!left.has(hash), "nothing of an old state is left");
    }
    const steps = await stage.store.inner.list(`step/${session}/`);
    const roots = steps.items.flatMap((item) => (JSON.parse(item.value) as StepRecord).roots);
    assert.equal(roots.length, 20);
    await stage.stop();
  });
});

describe("an orchestrator's health", () => {
  it("says that the store is away, serves what it has, and loses nothing", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const { session, nodes } = await running(stage, 2, { steps: 20n });
    stage.store.outages++;
    await stage.pass(30_000);
    const health = await stage.call(SystemService.method.getHealth, {});
    assert.match(health.problems[0] ?? "", /the store has not answered for \d/);
    const { session: seen } = await stage.call(SessionService.method.getSession, { id: session });
    assert.equal(seen?.id, session);
    await stage.pass(30_000);
    assert.ok(
      nodes.every((one) => one.attachedTo === "o1"),
      "PNodes stay attached",
    );
    stage.store.outages--;
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    const after = await stage.call(SystemService.method.getHealth, {});
    assert.deepEqual(after.problems, []);
    await stage.stop();
  });
});
