import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { othersLoad } from "../../system/machine/others-load.ts";
import { GivenTotals, wattHours } from "./given.ts";
import { type LendingState, lendingLines } from "./screen.ts";
import { readWish, writeWish } from "./wishes.ts";

const vnode = { session: "mlp-1", vnode: "head", step: 242n, phase: "computing", stepMs: 12 };
const state = (change: Partial<LendingState> = {}): LendingState => ({
  name: "maple",
  network: "lab.example:7700",
  address: "192.168.1.5:7801",
  reach: "It was called back: the network reaches it directly.",
  lends: ["2 of 8 cores", "up to 4.0 GiB of memory"],
  readings: { attached: true, retainedBytes: 0, dataWaitMs: 0, lockerBytes: 0, vnodes: [] },
  wish: "lend",
  refusal: "",
  problems: [],
  given: { lentMs: 4_320_000, steps: 4_210, computedMs: 2_280_000 },
  log: [],
  ...change,
});
const text = (change: Partial<LendingState> = {}, width = 100) =>
  lendingLines(state(change), { width, paint: (_, one) => one }).join("\n");

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "dcnr-lending-"));
  await use(folder).finally(() => rm(folder, { recursive: true }));
}

describe("the screen of a machine that is lent", () => {
  it("says what is lent, to whom, what it does and what it gave", () => {
    const shown = text({ readings: { ...state().readings, vnodes: [vnode, { ...vnode, vnode: "b" }] } });
    assert.match(shown, /^maple is lent to lab.example:7700\n/);
    assert.match(shown, /lends +2 of 8 cores\n +up to 4.0 GiB/);
    assert.match(shown, /now +works: 2 parts of networks\n +mlp-1: 2 VNodes at step 242, 24 ms of computing a step/);
    assert.match(shown, /gave +72 min 0 s of its time, 4,210 steps with 38 min 0 s of computing, about 6.3 Wh/);
  });

  it("says what was verified of that, once somebody has told", () => {
    assert.doesNotMatch(text(), /verified/);
    assert.match(text({ news: { earned: 12_345n } }), /gave .*\n +verified: 12,345 credits for work that is final/);
    assert.match(text({ news: { earned: 0n, update: "the network runs DCNR 9" } }), /update +the network runs DCNR 9/);
  });

  it("says why it is not lent, and what the keys do then", () => {
    assert.match(text(), /now +ready, waits for work/);
    assert.match(text({ wish: "pause", refusal: "paused by you" }), /not lent: paused by you\n[\s\S]*p lends it again/);
    assert.match(text({ wish: "finish" }), /finishes what it has, then leaves\n[\s\S]*f stays after all/);
    assert.match(text({ readings: { ...state().readings, attached: false } }), /looks for an orchestrator/);
  });

  it("keeps to the window, and nobody paints it by a session's name", () => {
    const evil = { ...vnode, session: "\u001b[31mred" };
    const shown = text({ readings: { ...state().readings, vnodes: [evil] }, log: ["x".repeat(300)] }, 40);
    for (const line of shown.split("\n")) assert.ok(line.length <= 40, line);
    assert.ok(!shown.includes("\u001b"));
  });
});

describe("what a machine gave", () => {
  it("is added up over restarts; a damaged file begins anew", () =>
    inFolder(async (folder) => {
      const first = await GivenTotals.open(folder);
      first.work("forward", 500);
      first.work("update", 1_500);
      first.passed(1_000);
      await first.save();
      const second = await GivenTotals.open(folder);
      second.work("update", 1_000);
      assert.deepEqual(second.now, { lentMs: 1_000, steps: 2, computedMs: 3_000 });
      await writeFile(join(folder, "given.json"), '{"lentMs":"much"');
      assert.deepEqual((await GivenTotals.open(folder)).now, { lentMs: 0, steps: 0, computedMs: 0 });
      assert.equal(wattHours({ ...second.now, computedMs: 3_600_000 }), 10);
    }));
});

describe("what an owner wishes", () => {
  it("stays until something else is wished", () =>
    inFolder(async (folder) => {
      assert.equal(await readWish(folder), "lend");
      await writeWish(folder, "pause");
      assert.equal(await readWish(folder), "pause");
      await writeWish(folder, "lend");
      await writeWish(folder, "lend");
      assert.equal(await readWish(folder), "lend");
    }));
});

describe("what other programs use", () => {
  it("is what all cores did without what this process did", () => {
    const before = { busyMs: 1_000, totalMs: 10_000, ownMs: 100 };
    assert.equal(othersLoad(before, { busyMs: 2_000, totalMs: 14_000, ownMs: 600 }), 0.125);
    assert.equal(othersLoad(before, { busyMs: 1_500, totalMs: 14_000, ownMs: 900 }), 0, "never below nothing");
    assert.equal(othersLoad(before, before), 0);
  });
});
