import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SessionId, VNodeId } from "../../../core/ids.ts";
import { openMemoryStore } from "../../../store/memory.ts";
import { realWorld } from "../../../system/world.ts";
import type { Context } from "../../context.ts";
import { Mirror } from "../../records/mirror.ts";
import type { SessionRecord } from "../../records/sessions.ts";
import { key } from "../../records/store-keys.ts";
import type { VNodeRecord } from "../../records/vnodes.ts";
import { RoundCare, type RoundNeeds } from "./round-care.ts";
import { RoundClock } from "./round-clock.ts";

const id = "s" as SessionId;
const vnodes = ["a", "a#1"] as VNodeId[];

/** Two lanes of a session with rounds of ten steps, the first of which begins after five, and orchestrators that care for it. */
async function scene() {
  const mirror = new Mirror(openMemoryStore(), realWorld({ logFormat: "none" }));
  let nowMs = 0;
  const session = {
    ...{ id, vnodes, line: 5, lineBefore: 0, turn: 0, status: "running", numericsClass: "one", rounds: [] },
    identity: { steps: 500, lanes: 2, microbatches: 2, numerics: "native", sync: { every: 10, after: 5 } },
    policy: { checkpointEvery: 20, elastic: "on", replicas: 1 },
  } as unknown as SessionRecord;
  await mirror.update(key.session(id), () => session);
  await mirror.update(key.pnode("p"), () => ({ id: "p", status: "online", life: "1" }) as never);
  const members = [{ pnode: "p", life: "1", class: "one" }];
  for (const vnode of vnodes)
    await mirror.update(
      key.vnode(id, vnode),
      () => ({ session: id, vnode, members, durable: {} }) as unknown as VNodeRecord,
    );
  const context = {
    mirror,
    world: { ...realWorld({ logFormat: "none" }), clock: { monotonicMs: () => nowMs, wallMs: () => nowMs } },
    events: { emit: () => {} },
    tasks: { after: () => {} },
  } as unknown as Context;
  const needs = { capacity: { fleet: { classes: () => ["one"] } }, touch: () => {} } as unknown as RoundNeeds;
  const state = { hash: "h", bytes: 1, class: "one" };
  return {
    orchestrator: () => new RoundCare(context, needs),
    /** A lane's state after a step is stored. */
    stored: (lane: number, step: number) =>
      mirror.update(key.vnode(id, vnodes[lane] as VNodeId), (record) =>
        record ? ({ ...record, durable: { ...record.durable, [step]: state } } as VNodeRecord) : undefined,
      ),
    lineAt: (line: number) => mirror.update(key.session(id), (record) => record && { ...record, line }),
    async look(care: RoundCare, atMs: number) {
      nowMs = atMs;
      await care.tend(mirror.get(key.session(id)) as SessionRecord);
    },
    /** Steps of each lane in a round, and who counts in it; as its machines are told. */
    told(round: number) {
      const found = mirror.get(key.session(id))?.rounds?.find((one) => one.round === round);
      return { steps: found?.lanes.map(({ steps }) => steps), counted: found?.counted };
    },
  };
}

/** The first round, of which both lanes are ready after a minute; then the fast one learns all of the next before the line comes to it. */
async function secondRound() {
  const world = await scene();
  const care = world.orchestrator();
  await world.look(care, 0);
  for (const lane of [0, 1]) await world.stored(lane, 15);
  await world.look(care, 60_000);
  assert.deepEqual(world.told(0).counted, [0, 1]);
  await world.stored(0, 26);
  await world.lineAt(16);
  return { ...world, care };
}

describe("a round", () => {
  it("begins when the one before is closed, not when the line comes to it: slow lanes are waited for, and get their share", async () => {
    const { care, look, told, stored } = await secondRound();
    await look(care, 120_000);
    await look(care, 140_000);
    assert.equal(told(1).counted, undefined, "half of the minute that the first lane took");
    await stored(1, 26);
    await look(care, 149_000);
    assert.deepEqual(told(1).counted, [0, 1]);
    assert.deepEqual(told(2).steps, [10, 7], "a minute, and a minute and a half");
  });

  it("is given the time of the one before by who does not know when it began, and nobody is measured by it", async () => {
    const { orchestrator, look, told } = await secondRound();
    const other = orchestrator();
    await look(other, 120_000);
    await look(other, 179_000);
    assert.equal(told(1).counted, undefined, "a minute from when it came");
    await look(other, 180_000);
    assert.deepEqual(told(1).counted, [0]);
    assert.deepEqual(told(2).steps, [10, 10]);
  });

  it("that nobody has seen end before is waited for as long as was looked at it", () => {
    const clock = new RoundClock();
    clock.ready(3, [], 1_000);
    clock.ready(3, [1], 41_000);
    assert.deepEqual(clock.times(3, 50_000), { tookMs: 40_000, readyForMs: 9_000 });
    assert.equal(clock.speeds(3, [], 50_000), undefined);
  });
});
