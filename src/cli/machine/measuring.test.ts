import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { silentLog, type World } from "../../core/world.ts";
import type { Remembered } from "../../system/files/remembered.ts";
import type { Measured } from "./measure-machine.ts";
import { Measuring } from "./measuring.ts";

const found: Measured = { gflops: 30, classes: [{ engine: "native", class: "a" }] };

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Timers that fire when the test says so, in the order in which they are due. */
function world() {
  const due: { atMs: number; run: () => void }[] = [];
  let nowMs = 0;
  const given: World = {
    clock: { wallMs: () => nowMs, monotonicMs: () => nowMs },
    timers: {
      after: (delayMs, run) => {
        const one = { atMs: nowMs + delayMs, run };
        due.push(one);
        return () => {
          if (due.includes(one)) due.splice(due.indexOf(one), 1);
        };
      },
    },
    chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0 },
    log: silentLog,
  };
  const fire = async () => {
    due.sort((a, b) => a.atMs - b.atMs);
    const next = due.shift();
    nowMs = next?.atMs ?? nowMs;
    next?.run();
    await turn();
  };
  return { given, fire };
}

function remembering(known?: Measured) {
  let value = known;
  const memory = {
    get: async () => value,
    set: async (now: Measured) => {
      value = now;
      return now;
    },
  };
  return memory as unknown as Remembered<Measured>;
}

describe("measuring a machine", () => {
  it("never holds a start up: one that takes too long joins with an estimate and tells later what it is", async () => {
    const { given, fire } = world();
    const slow = Promise.withResolvers<Measured>();
    const measuring = new Measuring(remembering(), 2, given, () => slow.promise);
    const starting = measuring.atOnce();
    await turn();
    await fire();
    const estimate = await starting;
    assert.deepEqual(estimate.classes, []);
    assert.ok(estimate.gflops > 0);
    const told: Measured[] = [];
    measuring.onMeasured((measured) => told.push(measured));
    slow.resolve(found);
    await turn();
    assert.deepEqual(told, [found]);
    measuring.stop();
  });

  it("tries again when it fails, and the start goes on", async () => {
    const { given, fire } = world();
    let tries = 0;
    const measuring = new Measuring(remembering(), 2, given, async () => {
      if (++tries === 1) throw new Error("the engine does not load");
      return found;
    });
    const starting = measuring.atOnce();
    await turn();
    await fire();
    assert.deepEqual((await starting).classes, []);
    await fire();
    assert.equal(tries, 2);
    measuring.stop();
  });

  it("uses what an earlier start found out", async () => {
    const { given } = world();
    const measuring = new Measuring(remembering(found), 2, given, () => Promise.reject(new Error("not now")));
    assert.deepEqual(await measuring.atOnce(), found);
    measuring.stop();
  });

  it("uses what it is told where it knows nothing itself, and remembers that", async () => {
    const { given } = world();
    const memory = remembering();
    const measuring = new Measuring(memory, 2, given, () => Promise.reject(new Error("not now")));
    assert.deepEqual(await measuring.atOnce(found), found);
    assert.deepEqual(await memory.get(), found);
    assert.deepEqual(await measuring.atOnce({ ...found, gflops: 1 }), found, "its own is newer");
    measuring.stop();
  });
});
