import { strict as assert } from "node:assert";
import { describe, test } from "node:test";
import type { Tensor } from "../../core/tensor.ts";
import { float, node } from "../conformance.ts";
import { openInlineExecutor } from "../executor.ts";
import { arrayDevice, arrayDeviceEngine } from "./array-device.testing.ts";

const doubling = {
  name: "doubling",
  inputs: [float("x", 4)],
  outputs: [float("y", 4), float("z", 4)],
  nodes: [node("Add", ["x", "x"], "y"), node("Add", ["y", "x"], "z")],
  constants: {},
};

function open() {
  const device = arrayDevice();
  const executor = openInlineExecutor(arrayDeviceEngine(device));
  executor.register("doubling", doubling);
  return { device, executor };
}

const numbers = (tensor: Tensor | undefined) => Array.from((tensor as Tensor).data as Float32Array);

describe("an executor on a device with memory of its own", () => {
  test("leaves what is kept there until it is asked for, and lets go of it when it is recycled", async () => {
    const { device, executor } = open();
    const x = executor.tensor("float32", [4]);
    (x.data as Float32Array).set([1, 2, 3, 4]);
    const { y, z } = await executor.run("doubling", { x }, { keep: ["y"] });
    assert.deepEqual(numbers(z), [3, 6, 9, 12]);
    assert.notDeepEqual(numbers(y), [2, 4, 6, 8]);
    assert.equal(device.traffic.down, 16);
    assert.equal(device.traffic.resident, 16);
    const before = device.traffic.up;
    const again = await executor.run("doubling", { x: y as Tensor });
    assert.deepEqual(numbers(again["z"]), [6, 12, 18, 24]);
    assert.equal(device.traffic.up, before);
    await executor.download([y as Tensor]);
    assert.deepEqual(numbers(y), [2, 4, 6, 8]);
    executor.recycle([y as Tensor]);
    await executor.numericsClass();
    assert.equal(device.traffic.resident, 0);
  });

  test("uploads what lies in a block once, and again when the caller has written", async () => {
    const { device, executor } = open();
    const block = executor.allocate(64);
    const x: Tensor = { dtype: "float32", shape: [4], data: new Float32Array(block.buffer, block.offset, 4) };
    (x.data as Float32Array).set([1, 1, 1, 1]);
    for (let i = 0; i < 3; i++) await executor.run("doubling", { x });
    assert.equal(device.traffic.up, 16);
    (x.data as Float32Array).set([2, 2, 2, 2]);
    executor.upload([x]);
    assert.deepEqual(numbers((await executor.run("doubling", { x }))["y"]), [4, 4, 4, 4]);
    assert.equal(device.traffic.up, 32);
    executor.free(block);
    await executor.numericsClass();
    assert.equal(device.traffic.resident, 0);
  });

  test("keeps the rest of what the caller has written to in part, and sees other cuts of the same memory", async () => {
    const { executor } = open();
    const block = executor.allocate(64);
    const all = new Float32Array(block.buffer, block.offset, 16);
    const part = (start: number, length: number): Tensor => {
      return { dtype: "float32", shape: [length], data: all.subarray(start, start + length) };
    };
    all.set([1, 2, 3, 4]);
    await executor.run("doubling", { x: part(0, 4) }, { into: { y: part(0, 4), z: part(4, 4) } });
    all[1] = 50;
    executor.upload([part(1, 1)]);
    const { y } = await executor.run("doubling", { x: part(2, 4) });
    assert.deepEqual(numbers(y), [12, 16, 6, 12]);
    await executor.download([part(0, 16)]);
    assert.deepEqual([...all.subarray(0, 8)], [2, 50, 6, 8, 3, 6, 9, 12]);
  });

  test("runs kernels where the operands lie, and the rest on what was downloaded", async () => {
    const { device, executor } = open();
    const [into, add] = [executor.allocate(64), executor.allocate(64)];
    const view = (block: typeof into, start: number): Tensor => {
      return { dtype: "float32", shape: [4], data: new Float32Array(block.buffer, block.offset + 4 * start, 4) };
    };
    const x: Tensor = { dtype: "float32", shape: [4], data: Float32Array.of(1, 2, 3, 4) };
    await executor.run("doubling", { x }, { into: { y: view(into, 0), z: view(into, 4) } });
    await executor.run("doubling", { x }, { into: { y: view(add, 0), z: view(add, 4) } });
    const span = (memory: typeof into) => ({ memory, start: 0, length: 16 });
    const down = device.traffic.down;
    const [, squares] = await executor.kernels([
      { kind: "accumulate", into: span(into), add: span(add) },
      { kind: "sumOfSquares", of: span(into) },
    ]);
    assert.equal(squares?.value, 16 * 30 + 36 * 30);
    assert.equal(device.traffic.down - down, 8);
    const { value } = await executor.kernel({ kind: "finite", of: span(into) });
    assert.equal(value, 1);
    await executor.kernel({ kind: "fill", into: span(add), value: 7 });
    assert.deepEqual(numbers(view(into, 0)), [4, 8, 12, 16]);
    assert.deepEqual(numbers((await executor.run("doubling", { x: view(add, 4) }))["y"]), [14, 14, 14, 14]);
  });

  test("fails for good once the device is lost, and says so", async () => {
    const { device, executor } = open();
    const x: Tensor = { dtype: "float32", shape: [4], data: new Float32Array(4) };
    await executor.run("doubling", { x });
    device.lose();
    for (let i = 0; i < 2; i++) await assert.rejects(executor.run("doubling", { x }), /the GPU was lost/);
    await assert.rejects(
      executor.kernel({ kind: "fill", into: executor.tensor("float32", [4]), value: 1 }),
      /GPU was lost/,
    );
    await executor.close();
  });
});
