import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { Tasks } from "../../core/tasks.ts";
import { silentLog } from "../../core/world.ts";
import { Retention } from "./retention.ts";

const tensor = (fill: number) => ({ dtype: "int32", shape: [4], bytes: new Uint8Array(16).fill(fill) }) as const;

function scene(diskBytesMax: number) {
  const files = new Map<string, Uint8Array>();
  const tasks = new Tasks(silentLog);
  const full: boolean[] = [];
  const storage = {
    write: async (key: string, content: Uint8Array) => void files.set(key, content.slice()),
    read: async (key: string) => files.get(key)!,
    remove: async (key: string) => void files.delete(key),
  };
  const retention = new Retention({
    memoryBytesMax: 64,
    diskBytesMax,
    storage,
    tasks,
    onFull: (now) => full.push(now),
  });
  return { retention, files, tasks, full };
}

describe("retained tensors", () => {
  it("move to disk beyond the bound, oldest first, and are read back as they were", async () => {
    const { retention, files, tasks, full } = scene(1_000);
    const stored = Array.from({ length: 7 }, (_, index) => retention.keep(tensor(index)));
    await tasks.settled();
    assert.equal(retention.memoryBytes, 64);
    assert.equal(retention.bytes, 7 * 16);
    assert.deepEqual(
      stored.map((each) => each.inMemory),
      [false, false, false, true, true, true, true],
    );
    for (const [index, each] of stored.entries()) assert.deepEqual(await each.borrow(), tensor(index));
    assert.deepEqual(full, []);
    for (const each of stored) retention.release(each);
    for (const each of stored) retention.release(each);
    await tasks.settled();
    assert.equal(retention.bytes, 0);
    assert.equal(files.size, 0);
  });

  it("say when memory and disk are full, and when there is room again", async () => {
    const { retention, tasks, full } = scene(32);
    const stored = Array.from({ length: 9 }, (_, index) => retention.keep(tensor(index)));
    await tasks.settled();
    assert.ok(retention.full);
    for (const each of stored.slice(0, 5)) retention.release(each);
    await tasks.settled();
    assert.deepEqual(full, [true, false]);
  });

  it("are full at their bound if there is no disk, and only then", () => {
    const full: boolean[] = [];
    const options = { memoryBytesMax: 64, diskBytesMax: 1_000, tasks: new Tasks(silentLog) };
    const retention = new Retention({ ...options, onFull: (now) => full.push(now) });
    const stored = Array.from({ length: 4 }, (_, index) => retention.keep(tensor(index)));
    assert.deepEqual(full, [], "64 bytes fit");
    const last = retention.keep(tensor(4));
    assert.deepEqual(full, [true], "16 more do not");
    retention.release(last);
    assert.deepEqual(full, [true, false]);
    assert.equal(stored.length, 4);
  });

  it("are full at twice the memory while a disk that has room catches up", async () => {
    const { retention, tasks, full } = scene(1_000);
    for (let index = 0; index < 8; index++) retention.keep(tensor(index));
    assert.deepEqual(full, [], "128 bytes wait for the disk");
    retention.keep(tensor(8));
    assert.deepEqual(full, [true]);
    await tasks.settled();
    assert.deepEqual(full, [true, false]);
    assert.equal(retention.memoryBytes, 64, "no more stays in memory than the bound");
  });

  it("that are released while they are written leave nothing behind", async () => {
    const { retention, files, tasks } = scene(1_000);
    const stored = Array.from({ length: 7 }, (_, index) => retention.keep(tensor(index)));
    for (const each of stored) retention.release(each);
    await tasks.settled();
    assert.equal(retention.bytes, 0);
    assert.equal(files.size, 0);
  });
});
