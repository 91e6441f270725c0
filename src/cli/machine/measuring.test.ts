import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { silentLog, type World } from "../../core/world.ts";
import type { Remembered } from "../../system/files/remembered.ts";
import { gflopsEstimated, type Measured, measureMachine, type OnFound } from "./measure-machine.ts";
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

  it("tells what it found out while the machine was joining, when nobody listened yet", async () => {
    const { given, fire } = world();
    const slow = Promise.withResolvers<Measured>();
    const measuring = new Measuring(remembering(), 2, given, () => slow.promise);
    const starting = measuring.atOnce();
    await turn();
    await fire();
    assert.deepEqual((await starting).classes, []);
    slow.resolve(found);
    await turn();
    const told: Measured[] = [];
    measuring.onMeasured((measured) => told.push(measured));
    assert.deepEqual(told, [found]);
    measuring.stop();
  });

  it("joins with the classes that it knows by then, whatever its speed, and tells each other one at once", async () => {
    const { given, fire } = world();
    const slow = Promise.withResolvers<Measured>();
    let finds: OnFound = () => {};
    const memory = remembering();
    const measuring = new Measuring(memory, 2, given, (onFound) => {
      finds = onFound ?? finds;
      return slow.promise;
    });
    const starting = measuring.atOnce();
    await turn();
    const native = { engine: "native", class: "a" };
    finds({ gflops: 10, classes: [native] });
    await fire();
    assert.deepEqual(await starting, { gflops: 10, classes: [native] });
    const told: Measured[] = [];
    measuring.onMeasured((measured) => told.push(measured));
    assert.deepEqual(told, [], "nothing is new yet");
    const portable = { engine: "portable", class: "b" };
    finds({ gflops: 30, classes: [native, portable] });
    assert.deepEqual(told, [{ gflops: 30, classes: [native, portable] }]);
    assert.equal(await memory.get(), undefined, "only what is whole is for the next start");
    slow.resolve({ gflops: 30, classes: [native, portable] });
    await turn();
    assert.deepEqual(await memory.get(), { gflops: 30, classes: [native, portable] });
    measuring.stop();
  });

  it("does not listen while a machine that is known is measured again: the classes that it has are not taken from it", async () => {
    const { given, fire } = world();
    const told: Measured[] = [];
    const measuring = new Measuring(remembering(found), 1_000, given, async (onFound) => {
      onFound?.({ gflops: 10, classes: [] });
      return { ...found, gflops: 40 };
    });
    await measuring.atOnce();
    measuring.onMeasured((measured) => told.push(measured));
    await fire();
    await turn();
    assert.deepEqual(told, [{ ...found, gflops: 40 }]);
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

it("a machine knows its fastest class before its speed, and in the end all of them", async () => {
  const finds: Measured[] = [];
  const all = await measureMachine((measured) => finds.push(measured));
  const [first] = finds;
  assert.deepEqual(first?.classes, all.classes.slice(0, 1));
  assert.equal(first?.gflops, gflopsEstimated);
  assert.deepEqual(all.classes.map(({ engine }) => engine).slice(-2), ["portable", "exact"]);
  assert.ok(all.gflops > 0);
});
