// Orchestrators that come back: what a machine took over while they were away has its room before anybody else gets it, and its
// owner is written on that claim.

import assert from "node:assert/strict";
import { beforeEach, it } from "node:test";
import type { OrchestratorId, PNodeId, SessionId, VNodeId } from "../../core/ids.ts";
import { silentLog, type World } from "../../core/world.ts";
import { tenureToWire } from "../../crew/charter.ts";
import type { CrewReport } from "../../protocol/gen/dcnr/v1/session_peers_pb.ts";
import { openMemoryStore } from "../../store/memory.ts";
import type { Context } from "../context.ts";
import { Flapping } from "../fleet/believed/flapping.ts";
import { Capacity } from "../fleet/capacity/capacity.ts";
import { lentBy, Rooms } from "../fleet/capacity/rooms.ts";
import type { PNodeRecord } from "../records/machines.ts";
import { Mirror } from "../records/mirror.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { Member, VNodeRecord } from "../records/vnodes.ts";
import { Adoption } from "./adoption.ts";
import type { Charters } from "./charters.ts";

const gigabyte = 2 ** 30;
const session = "alone" as SessionId;
const other = "other" as SessionId;
const vnodes = ["v1", "v2"] as VNodeId[];
const [dead, taker] = ["dead", "taker"] as PNodeId[] as [PNodeId, PNodeId];
const silentMs = 3_000;
const settledMs = 1.5 * silentMs;

const pnodeRecord = {
  status: "online",
  incarnation: "i1",
  orchestratorIncarnation: "before",
  facts: { cores: 4, memoryBytes: 3 * gigabyte, gpus: [], gflops: 10, numerics: [] },
  limits: { cpus: 0, memoryBytes: 0 },
  history: { reliability: 1 },
};
/** All that the taker lends is room for these and one more of a quarter of a gigabyte. */
const memoryBytes = 1.25 * gigabyte;

const sessionRecord = {
  ...{ id: session, status: "running", vnodes, policy: { autonomy: "on" }, requirements: { gpus: 0 } },
} as unknown as SessionRecord;

const owner = { pnode: dead, incarnation: "i1", life: 1, since: 3, reason: "" };
const vnodeRecord = (vnode: VNodeId) =>
  ({ session, vnode, epoch: 3, memoryBytes, members: [{ ...owner, claim: `of ${vnode}` }] }) as unknown as VNodeRecord;

let nowMs = 0;
let drawn = 0;
const world: World = {
  clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
  // Short waits, such as before a write is tried again, are over at once; nothing is given up.
  timers: {
    after: (delayMs, callback) => {
      if (delayMs < 1_000) setImmediate(callback);
      return () => {};
    },
  },
  chance: { bytes: (count) => new Uint8Array(count).fill(++drawn), uniform: () => 0.5 },
  log: silentLog,
};

function orchestrator(store = openMemoryStore()) {
  const later: (() => void)[] = [];
  const mirror = new Mirror(store, world);
  const context = {
    ...{ mirror, world, timings: { silentMs }, id: "o" as OrchestratorId, incarnation: "now" },
    events: { emit: () => {} },
    tasks: { after: (_: number, callback: () => void) => later.push(callback) },
  } as unknown as Context;
  const rooms = new Rooms(context);
  const capacity = new Capacity(context, new Map(), new Flapping(world.clock));
  const charters = {
    isAutonomous: ({ policy }: SessionRecord) => policy.autonomy === "on",
    crewOf: () => new Map([[taker, {}]]),
    sessions: () => [sessionRecord],
  } as unknown as Charters;
  const adoption = new Adoption(context, {
    ...{ charters, rooms },
    touch: () => {},
    isAttached: ({ orchestratorIncarnation }) => orchestratorIncarnation === "now",
    onAwaited: () => capacity.lookAgain(),
  });
  capacity.isAwaited = (record) => adoption.isAwaited(record);
  const claimsOn = (pnode: PNodeId) => Object.entries(mirror.get(key.room(pnode))?.claims ?? {});
  const freeOn = (pnode: PNodeId) => capacity.fleet.get(pnode)?.memoryFreeBytes;
  return { mirror, rooms, capacity, adoption, later, claimsOn, freeOn };
}

/** As the records were when all orchestrators died, and then the owner: nobody was there to note that. */
async function left(mirror: Mirror, memory = 3 * gigabyte): Promise<void> {
  const facts = { ...pnodeRecord.facts, memoryBytes: memory };
  await mirror.update(
    key.pnode(taker),
    () => ({ ...pnodeRecord, facts, id: taker, life: 2 }) as unknown as PNodeRecord,
  );
  await mirror.update(key.pnode(dead), () => ({ ...pnodeRecord, id: dead, life: 1 }) as unknown as PNodeRecord);
  for (const vnode of vnodes) await mirror.update(key.vnode(session, vnode), () => vnodeRecord(vnode));
  await mirror.update(key.session(session), () => sessionRecord);
}

/** Registers, and tells what it hosts. */
async function comesBack({ mirror, adoption }: ReturnType<typeof orchestrator>): Promise<void> {
  await attach(mirror, taker);
  await adoption.count(taker, registered);
}

async function attach(mirror: Mirror, pnode: PNodeId): Promise<void> {
  await mirror.update(key.pnode(pnode), (record) => record && { ...record, orchestratorIncarnation: "now" });
}

const registered = {
  incarnation: "i1",
  hosted: vnodes.map((vnode) => ({ session, vnode, epoch: 3n })),
};

const reports = [
  {
    session,
    takeovers: vnodes.map((vnode) =>
      tenureToWire({ vnode, epoch: 3, count: 1, owners: [{ pnode: taker, incarnation: "i1" }] }),
    ),
  },
] as unknown as CrewReport[];

/** Another session's. */
const asked = (bytes: number) =>
  new Map([
    [
      taker,
      [
        {
          workload: other,
          claims: { theirs: { session: other, vnode: "w" as VNodeId, epoch: 1, memoryBytes: bytes, gpus: 0 } },
        },
      ],
    ],
  ]);

const ownersOf = (mirror: Mirror, vnode: VNodeId): readonly Member[] =>
  mirror.get(key.vnode(session, vnode))?.members ?? [];

beforeEach(() => {
  nowMs = 0;
});

it("what a machine says that it hosts has its room before anybody else, and its owner stands on that claim", async () => {
  const one = orchestrator();
  const { mirror, rooms, adoption, claimsOn } = one;
  await left(mirror);
  assert.equal(adoption.hasTakenOver(taker, registered), true);
  await comesBack(one);
  const claims = claimsOn(taker);
  assert.deepEqual(
    claims.map(([, claim]) => [claim.session, claim.vnode, claim.epoch]),
    vnodes.map((vnode) => [session, vnode, 4]),
  );
  assert.equal((await rooms.claim(asked(gigabyte))).get(taker)?.workloads.has(other), false, "it would not fit beside");

  nowMs = settledMs;
  adoption.hear(taker, reports);
  assert.equal(await adoption.settle(sessionRecord), true);
  for (const vnode of vnodes)
    assert.deepEqual(
      ownersOf(mirror, vnode).map(({ pnode, life, since }) => ({ pnode, life, since })),
      [{ pnode: taker, life: 2, since: 3 }],
    );
  const stoodOn = vnodes.flatMap((vnode) => ownersOf(mirror, vnode).map(({ claim }) => claim));
  assert.deepEqual(stoodOn.sort(), claims.map(([id]) => id).sort(), "nothing is claimed twice");
  assert.equal(claimsOn(taker).length, 2);
  assert.equal(adoption.hasTakenOver(taker, registered), false, "by the records it is its own now");
});

it("the claim that another orchestrator made is found, also by one that has not heard of it", async () => {
  const store = openMemoryStore();
  const [first, second] = [orchestrator(store), orchestrator(store)];
  await left(first.mirror);
  await attach(first.mirror, taker);
  await second.mirror.refresh();
  await first.adoption.count(taker, registered);
  nowMs = settledMs;
  second.adoption.hear(taker, reports);
  await second.adoption.settle(sessionRecord);
  assert.deepEqual(
    vnodes.map((vnode) => ownersOf(second.mirror, vnode).map(({ pnode }) => pnode)),
    [[taker], [taker]],
  );
  await first.mirror.refresh();
  assert.equal(first.claimsOn(taker).length, 2);
});

it("two orchestrators that adopt at once stand on one claim, and neither takes it from the other", async () => {
  const store = openMemoryStore();
  const [first, second] = [orchestrator(store), orchestrator(store)];
  await left(first.mirror);
  await comesBack(first);
  await second.mirror.refresh();
  nowMs = settledMs;
  for (const { adoption } of [first, second]) adoption.hear(taker, reports);
  await Promise.all([first.adoption.settle(sessionRecord), second.adoption.settle(sessionRecord)]);
  await first.mirror.refresh();
  const claims = first.claimsOn(taker).map(([id]) => id);
  assert.equal(claims.length, 2);
  for (const vnode of vnodes) assert.ok(claims.includes(ownersOf(first.mirror, vnode)[0]?.claim ?? ""), vnode);
});

it("only what does not fit is let go", async () => {
  const one = orchestrator();
  const { mirror, adoption, claimsOn } = one;
  await left(mirror, 2 * gigabyte);
  await comesBack(one);
  assert.equal(claimsOn(taker).length, 1);
  nowMs = settledMs;
  adoption.hear(taker, reports);
  await adoption.settle(sessionRecord);
  assert.deepEqual(
    vnodes.map((vnode) => ownersOf(mirror, vnode).map(({ pnode }) => pnode)),
    [[taker], []],
  );
  assert.equal(mirror.get(key.vnode(session, "v2" as VNodeId))?.epoch, 4, "whoever hosts it hears a higher word");
  assert.equal(claimsOn(taker).length, 1);
});

it("an owner that has come back itself stays the owner, and who took over from it lets go", async () => {
  const one = orchestrator();
  await left(one.mirror);
  await attach(one.mirror, dead);
  await comesBack(one);
  nowMs = settledMs;
  one.adoption.hear(taker, reports);
  await one.adoption.settle(sessionRecord);
  for (const vnode of vnodes)
    assert.deepEqual(
      ownersOf(one.mirror, vnode).map(({ pnode, since }) => ({ pnode, since })),
      [{ pnode: dead, since: 4 }],
    );
});

it("none of a machine's room is free until it has come to say what it hosts, or had the time to", async () => {
  const { mirror, adoption, later, freeOn } = orchestrator();
  await left(mirror);
  const taken = mirror.get(key.pnode(taker)) as PNodeRecord;
  assert.equal(freeOn(taker), 0, "it may come back with a session that went on by itself");
  await mirror.update(key.pnode(taker), () => ({ ...taken, orchestratorIncarnation: "now", uncounted: true as const }));
  assert.equal(freeOn(taker), 0, "what it says is not claimed yet");
  await adoption.count(taker, registered);
  await mirror.update(key.pnode(taker), () => ({ ...taken, orchestratorIncarnation: "now" }));
  assert.equal(freeOn(taker), lentBy(taken).memoryBytes - 2 * memoryBytes);

  await mirror.update(key.pnode(taker), () => taken);
  assert.equal(freeOn(taker), 0);
  nowMs = settledMs;
  for (const call of later.splice(0)) call();
  assert.equal(freeOn(taker), lentBy(taken).memoryBytes - 2 * memoryBytes, "it had the time");
});

it("a machine that is of no crew, or whose word stands below the record's, is given no room for it", async () => {
  const { mirror, adoption, claimsOn } = orchestrator();
  await left(mirror);
  await adoption.count(dead, { ...registered, incarnation: "i2" });
  assert.deepEqual(claimsOn(dead), []);
  const below = { ...registered, hosted: registered.hosted.map((told) => ({ ...told, epoch: 2n })) };
  assert.equal(adoption.hasTakenOver(taker, below), false);
  await adoption.count(taker, below);
  assert.deepEqual(claimsOn(taker), []);
});
