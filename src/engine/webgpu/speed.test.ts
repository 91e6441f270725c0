import { strict as assert } from "node:assert";
import { test } from "node:test";
import { openInlineExecutor } from "../executor.ts";
import { openPortableEngine } from "../portable/engine.ts";
import { deviceGflops, fastestFirst } from "./speed.ts";

test("a machine names its GPU's class first where the GPU was measured to be faster, by whatever name", () => {
  const [own, onGpus] = [
    ["native", "portable"],
    ["webgpu", "cuda"],
  ];
  assert.deepEqual(fastestFirst(own, onGpus, 900, 100), ["webgpu", "native", "portable", "cuda"]);
  assert.deepEqual(fastestFirst(own, onGpus, 9, 100), ["native", "portable", "webgpu", "cuda"]);
  assert.deepEqual(fastestFirst(own, [], 0, 100), own);
});

test("the speed is that of the size that suits best, and sizes grow no more once a product takes long", async () => {
  const executor = openInlineExecutor(openPortableEngine());
  // A clock by which the first products take a millisecond each, and those of 512 two seconds.
  let [nowMs, asked] = [0, 0];
  const clock = () => {
    asked += 1;
    if (asked % 2 === 0) nowMs += asked <= 4 ? 4 : 8_000;
    return nowMs;
  };
  assert.equal(await deviceGflops(executor, clock), (2 * 256 ** 3) / 1e6);
  assert.equal(asked, 6);
  await executor.close();
});
