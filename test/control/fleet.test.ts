// Many orchestrators, many PNodes, and PNodes that behave badly: handled, visible, and no harm to others.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fail } from "../../src/core/errors.ts";
import type { PNodeRecord } from "../../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { FleetService } from "../../src/protocol/gen/dcnr/v1/fleet_pb.ts";
import { SessionService } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import type { ActingPNode } from "./acting-pnode.ts";
import { Stage } from "./stage.ts";

const isDone = (record: SessionRecord) => record.status === "done";
const addresses = ["o1", "o2", "o3"].map((name) => `${name}.test:7400`);

/** Orders the list of orchestrators so that PNode i attaches to number i first. */
function startingAt(i: number): string[] {
  return addresses.map((_, k) => addresses[(i + k) % addresses.length] as string);
}

async function threeOrchestrators(stage: Stage, pnodes: number): Promise<ActingPNode[]> {
  for (const name of ["o1", "o2", "o3"]) await stage.orchestrator(name);
  const nodes = Array.from({ length: pnodes }, (_, i) =>
    stage.pnode(`p${i}`, { stepMs: 100, orchestrators: startingAt(i) }),
  );
  await stage.until("all PNodes attach", () => nodes.every((one) => one.attachedTo !== ""));
  return nodes;
}

async function events(stage: Stage, kindPrefix: string, name = "o1"): Promise<string[]> {
  const reply = await stage.call(FleetService.method.listEvents, { kindPrefix }, name);
  return reply.events.map((event) => event.message);
}

describe("several orchestrators on one store", () => {
  it("serve the same session whoever is asked", async () => {
    const stage = new Stage();
    const nodes = await threeOrchestrators(stage, 3);
    const session = await stage.session({ steps: 1_000n }, "o1");
    await stage.until("it is hosted", () => nodes.reduce((sum, one) => sum + one.hosted.size, 0) >= 3);
    for (const name of ["o2", "o3"]) {
      const reply = await stage.call(SessionService.method.getSession, { id: session }, name);
      assert.equal(reply.session?.id, session);
      const { pnodes } = await stage.call(FleetService.method.listPNodes, {}, name);
      assert.equal(pnodes.length, 3);
      await stage.call(FleetService.method.listVNodes, { session }, name);
    }
    await stage.pass(2_500);
    // Each hears of one PNode only, and learns the rest from the others once somebody has asked.
    const { vnodes } = await stage.call(FleetService.method.listVNodes, { session }, "o3");
    assert.deepEqual(new Set(vnodes.map((one) => one.phase)), new Set(["computing"]));
    assert.equal(new Set(vnodes.map((one) => one.pnode)).size, 3);
    await stage.stop();
  });

  it("lose nothing when one is killed: its PNodes attach elsewhere and keep their VNodes", async () => {
    const stage = new Stage();
    const nodes = await threeOrchestrators(stage, 3);
    const session = await stage.session({}, "o1");
    await stage.until("it is hosted", () => nodes.reduce((sum, one) => sum + one.hosted.size, 0) >= 3);
    const before = await stage.vnodes(session);
    stage.world.host("o1")?.crash();
    const diedMs = stage.nowMs;
    await stage.until("its PNode is elsewhere", () =>
      nodes.every((one) => one.attachedTo !== "" && one.attachedTo !== "o1"),
    );
    assert.ok(stage.nowMs - diedMs < 1_000, `it took ${stage.nowMs - diedMs} ms`);
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    const lost = (await stage.store.inner.list("pnode/")).items.filter((item) =>
      item.value.includes('"status":"lost"'),
    );
    assert.deepEqual(lost, [], "no PNode was taken for lost");
    assert.ok(before.length === 3);
    await stage.stop();
  });

  it("re-place what a PNode hosted that died together with its orchestrator", async () => {
    const stage = new Stage();
    const nodes = await threeOrchestrators(stage, 3);
    const session = await stage.session({}, "o2");
    await stage.until("it is hosted", () => nodes.reduce((sum, one) => sum + one.hosted.size, 0) >= 3);
    const victim = nodes[0] as ActingPNode;
    assert.ok(victim.hosted.size > 0);
    stage.world.host("o1")?.crash();
    victim.kill();
    const diedMs = stage.nowMs;
    const moved = (record: VNodeRecord) => record.members.every((member) => member.pnode !== victim.id);
    for (const { vnode } of await stage.vnodes(session))
      await stage.untilRecord<VNodeRecord>(`${vnode} has moved`, `vnode/${session}/${vnode}`, moved);
    assert.ok(stage.nowMs - diedMs < 3_000, `it took ${stage.nowMs - diedMs} ms`);
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    await stage.stop();
  });

  it("keep to the hours of owners, whichever orchestrator places", async () => {
    const stage = new Stage();
    for (const name of ["o1", "o2"]) await stage.orchestrator(name);
    const at = (i: number) => ({ stepMs: 100, orchestrators: [addresses[i], addresses[1 - i]] as string[] });
    const [owl, lark] = [stage.pnode("owl", at(0)), stage.pnode("lark", at(1))];
    await stage.until("both attach", () => owl.attachedTo === "o1" && lark.attachedTo === "o2");
    const session = await stage.session({ steps: 100_000n }, "o2");
    const total = () => owl.hosted.size + lark.hosted.size;
    await stage.until("it is hosted", () => total() === 3 && owl.hosted.size > 0);

    owl.accepting = false;
    await stage.until("all go to the one that is open", () => owl.hosted.size === 0 && lark.hosted.size === 3, 3_000);
    const second = await stage.session({ steps: 100_000n, seed: 2n }, "o2");
    await stage.until("a new session goes there too", () => lark.hosted.size === 6, 3_000);

    lark.accepting = false;
    await stage.until("nobody is used against the owner's will", () => total() === 0, 3_000);
    for (const id of [session, second]) {
      const waits = (record: SessionRecord) => record.status === "waiting" && /owners' hours/.test(record.reason);
      await stage.untilRecord("it says why it waits", `session/${id}`, waits, 3_000);
    }
    owl.breakStream();
    await stage.pass(15_000);
    assert.equal(total(), 0, "and a new attachment changes nothing");

    const writes = stage.writes;
    await stage.pass(60_000);
    assert.ok(stage.writes - writes < 60 * 3, `${stage.writes - writes} writes in a minute: presence, not hours`);
    owl.accepting = true;
    await stage.until("they come back with the owner's hours", () => owl.hosted.size === 6, 3_000);
    await stage.stop();
  });

  it("go on after all of them were killed and new ones started", async () => {
    const stage = new Stage();
    const nodes = await threeOrchestrators(stage, 3);
    const session = await stage.session({}, "o1");
    await stage.untilRecord<SessionRecord>("a line", `session/${session}`, (one) => one.line >= 4);
    for (const name of ["o1", "o2", "o3"]) stage.world.host(name)?.crash();
    stage.orchestrators.clear();
    await stage.pass(20_000);
    await stage.orchestrator("o2");
    await stage.until("PNodes are back", () => nodes.every((one) => one.attachedTo === "o2"));
    const record = await stage.untilRecord("the session is done", `session/${session}`, isDone);
    assert.equal(record.line, 20);
    await stage.stop();
  });

  it("do not care about clocks that are an hour off", async () => {
    const stage = new Stage();
    const nodes = await threeOrchestrators(stage, 3);
    stage.world.host("o1")?.jumpClock(3_600_000);
    stage.world.host("o2")?.jumpClock(-3_600_000);
    stage.world.host("p1")?.jumpClock(3_600_000);
    const session = await stage.session({}, "o1");
    await stage.until("it is hosted", () => nodes.reduce((sum, one) => sum + one.hosted.size, 0) >= 3);
    // A laptop's sleep: the monotonic clock leaps while nothing else happened.
    stage.world.host("o3")?.jumpClock(0, 60_000);
    await stage.pass(1_500);
    await stage.untilRecord("the session is done", `session/${session}`, isDone);
    const lost = (await stage.store.inner.list("pnode/")).items.filter(
      (item) => !item.value.includes('"status":"online"'),
    );
    assert.deepEqual(lost, []);
    await stage.stop();
  });
});

describe("the registry", () => {
  it("refuses another protocol, an id of somebody else, and a copy of a living PNode, each with a sentence", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const good = stage.pnode("p0");
    await stage.until("it attaches", () => good.attachedTo !== "");
    const attempt = async (name: string, register: object, key = name) => {
      const node = stage.pnode(name, { persistent: false, register, key });
      await stage.until("it is refused", () => node.errors.length > 0);
      return node.errors[0]?.message ?? "";
    };
    assert.match(await attempt("old", { protocolMajor: 7 }), /speaks protocol 7\.0, this orchestrator needs 1\.x/);
    assert.match(await attempt("copy", {}, "p0"), /is attached and alive/);
    assert.match(await attempt("all", { routes: ["0.0.0.0:7801"] }), /at 0\.0\.0\.0, where nobody can reach it/);
    assert.match(await attempt("own", { routes: ["127.0.0.1:7801"] }), /at 127\.0\.0\.1, .*join at o1\.test instead/);
    assert.equal((await events(stage, "pnode.duplicate")).length, 1);
    assert.equal(good.attachedTo, "o1", "the PNode that was there is not disturbed");
    await stage.stop();
  });

  it("takes a living PNode back that others gave up, though the store fails while it does", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const node = stage.pnode("p0");
    await stage.until("it attaches", () => node.attachedTo !== "");
    const { store } = stage;
    const write = store.write.bind(store);
    let failing = true;
    store.write = async (host, key, value, expected) => {
      if (key === "pnode/p0" && failing) fail("unavailable", "not now");
      return write(host, key, value, expected);
    };
    const item = await store.inner.get("pnode/p0");
    assert.ok(item);
    await store.inner.put("pnode/p0", JSON.stringify({ ...JSON.parse(item.value), status: "lost" }), item.version);
    // It is seen, and corrected in vain for longer than a write is tried.
    await stage.pass(20_000);
    assert.equal((await stage.pnodeRecord("p0"))?.status, "lost");
    failing = false;
    await stage.untilRecord<{ status: string }>("it is back", "pnode/p0", (one) => one.status === "online", 5_000);
    await stage.stop();
  });

  it("gives a PNode up whose registration was written and never answered", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    // The store takes the record, and nothing is heard of it for longer than anybody tries.
    const { store } = stage;
    const write = store.write.bind(store);
    store.write = async (host, key, value, expected) => {
      const version = await write(host, key, value, expected);
      if (key !== "pnode/p0" || expected > 0) return version;
      store.outages = 1;
      return fail("unavailable", "the answer got lost");
    };
    const node = stage.pnode("p0", { persistent: false });
    await stage.until("it hears that it failed", () => node.errors.length > 0);
    node.kill();
    store.outages = 0;
    assert.equal((await stage.pnodeRecord("p0"))?.status, "online", "which nobody stands for");
    const lost = await stage.untilRecord<PNodeRecord>("it is lost", "pnode/p0", (one) => one.status === "lost", 20_000);
    assert.match(lost.detail, /registered and was not heard of again/);
    await stage.stop();
  });

  it("shows what VNodes wait for, though what they say counts the seconds", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const node = stage.pnode("p0");
    await stage.until("it attaches", () => node.attachedTo !== "");
    await stage.session({});
    await stage.until("it is hosted", () => node.hosted.size > 0);
    node.waitingFor = "for b on PNode p1";
    await stage.pass(15_000);
    const { waits } = await stage.call(FleetService.method.getStatus, {});
    assert.equal(waits.length, 1, "one cause is one wait");
    assert.equal(waits[0]?.reason, "for b on PNode p1");
    assert.match(waits[0]?.sentence ?? "", /^3 VNodes on p0 have waited for 1\d s: for b on PNode p1$/);
    assert.ok((waits[0]?.sinceSeconds ?? 0) > 10, `for ${waits[0]?.sinceSeconds} s`);
    await stage.stop();
  });

  it("does not count 1,000 GPUs that measured speed contradicts, and says so", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const gpus = Array.from({ length: 1_000 }, () => ({ model: "H100", memoryBytes: 80n << 30n, vendor: "nvidia" }));
    const boaster = stage.pnode("p0", {
      register: {
        capabilities: {
          cores: 4,
          memoryBytes: 8n << 30n,
          gflops: 50,
          gpus,
          numerics: [{ engine: "reference", class: "reference" }],
        },
      },
    });
    await stage.until("it attaches", () => boaster.attachedTo !== "");
    const { pnodes } = await stage.call(FleetService.method.listPNodes, {});
    assert.match(pnodes[0]?.warnings[0] ?? "", /claims 1000 GPUs but measures 50 GFLOP\/s/);
    const session = await stage.session({ requirements: { gpus: 1 } });
    const record = await stage.untilRecord<SessionRecord>(
      "it waits",
      `session/${session}`,
      (one) => one.status === "waiting",
    );
    assert.match(record.reason, /needs 1 GPU; none of \d PNodes? lends one/);
    await stage.stop();
  });

  it("throttles a PNode that comes and goes a hundred times a minute, and shows it", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const steady = stage.pnode("steady", { stepMs: 100 });
    await stage.until("it attaches", () => steady.attachedTo !== "");
    const session = await stage.session({ steps: 20n });
    const before = stage.writes;
    const refusals: string[] = [];
    for (let i = 0; i < 100; i++) {
      const node = stage.pnode("flip", { persistent: false });
      await stage.pass(300);
      refusals.push(...node.errors.map((error) => error.message));
      node.kill();
      await stage.pass(300);
    }
    assert.ok(refusals.length > 60, `${refusals.length} of 100 were refused`);
    assert.match(refusals.at(-1) ?? "", /registers too often: try again in \d+ s/);
    assert.ok((await events(stage, "pnode.flapping")).length > 0);
    const { pnodes } = await stage.call(FleetService.method.listPNodes, {});
    assert.match(pnodes.find((one) => one.id === "flip")?.warnings.join() ?? "", /comes and goes/);
    assert.ok(stage.writes - before < 400, `${stage.writes - before} writes in a minute`);
    await stage.untilRecord("the other session is done", `session/${session}`, isDone);
    await stage.stop();
  });

  it("keeps failures, uptime and a reliability that recovers, across restarts", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const first = stage.pnode("p0");
    await stage.until("it attaches", () => first.attachedTo !== "");
    await stage.pass(60_000);
    first.kill();
    await stage.untilRecord<{ status: string }>("it is lost", "pnode/p0", (one) => one.status === "lost");
    const lost = await stage.pnodeRecord("p0");
    assert.equal(lost?.history.failures, 1);
    assert.ok((lost?.history.uptimeMs ?? 0) >= 59_000);
    const low = lost?.history.reliability as number;
    const second = stage.pnode("p0");
    await stage.until("it is back", () => second.attachedTo !== "");
    await stage.pass(600_000);
    const { pnodes } = await stage.call(FleetService.method.listPNodes, {});
    assert.ok((pnodes[0]?.reliability ?? 0) > low);
    assert.ok((pnodes[0]?.meanSecondsBetweenFailures ?? 0) > 600);
    await stage.stop();
  });

  it("causes fewer than 5 writes a second with 1,000 steady PNodes", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const nodes = Array.from({ length: 1_000 }, (_, i) => stage.pnode(`n${i}`, { heartbeatMs: 1_000 }));
    await stage.until("all attach", () => nodes.every((one) => one.attachedTo !== ""), 120_000);
    await stage.pass(5_000);
    const before = stage.writes;
    await stage.pass(10_000);
    const perSecond = (stage.writes - before) / 10;
    assert.ok(perSecond < 5, `${perSecond} writes a second`);
    await stage.stop();
  });

  it("re-assigns what 50 PNodes hosted that die together", async () => {
    const stage = new Stage();
    await stage.orchestrator("o1");
    const nodes = Array.from({ length: 60 }, (_, i) => stage.pnode(`n${i}`));
    await stage.until("all attach", () => nodes.every((one) => one.attachedTo !== ""));
    const session = await stage.session({ steps: 1_000n });
    await stage.until("it is hosted", () => nodes.reduce((sum, one) => sum + one.hosted.size, 0) >= 3);
    const hosts = nodes.filter((one) => one.hosted.size > 0);
    const dying = [...hosts, ...nodes.filter((one) => one.hosted.size === 0).slice(0, 50 - hosts.length)];
    const diedMs = stage.nowMs;
    for (const node of dying) node.kill();
    const rest = nodes.filter((one) => !dying.includes(one));
    await stage.until("the others host all", () => rest.reduce((sum, one) => sum + one.hosted.size, 0) >= 3);
    assert.ok(stage.nowMs - diedMs < 2_000, `it took ${stage.nowMs - diedMs} ms`);
    const { sessions } = await stage.call(FleetService.method.getStatus, {});
    assert.equal(sessions.find((one) => one.id === session)?.status, "running");
    await stage.stop();
  });
});
