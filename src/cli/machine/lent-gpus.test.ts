import { strict as assert } from "node:assert";
import { test } from "node:test";
import { exactClass } from "../../engine/exact/engine.ts";
import { lentBy } from "./lent-gpus.ts";

const adapters = ["NVIDIA L4 570.1"];

test("a GPU with WebGPU and CUDA is lent by both, each in a class of that adapter and driver", async () => {
  const found = await lentBy({ webgpu: "webgpu-1", exact: exactClass, cuda: "cuda-1" }, adapters);
  assert.match(found.class ?? "", /^webgpu-[0-9a-f]{12}$/);
  assert.match(found.cuda ?? "", /^cuda-[0-9a-f]{12}$/);
  assert.equal(found.exact, true);
  const other = await lentBy({ webgpu: "webgpu-1", exact: "", cuda: "cuda-1" }, ["NVIDIA L4 580.2"]);
  assert.notEqual(other.class, found.class);
  assert.notEqual(other.cuda, found.cuda);
  assert.equal(other.exact, false);
});

test("CUDA is lent where WebGPU is refused, which is said", async () => {
  const { cuda, class: webgpu, trouble } = await lentBy({ cuda: "cuda-1", trouble: "no Vulkan" }, adapters);
  assert.match(cuda ?? "", /^cuda-/);
  assert.equal(webgpu, undefined);
  assert.equal(trouble, "no Vulkan");
});

test("WebGPU is lent where CUDA lacks a library, which is said", async () => {
  const found = await lentBy({ webgpu: "webgpu-1", cudaTrouble: "CUDA cannot be used: libcublasLt.so.13" }, adapters);
  assert.match(found.class ?? "", /^webgpu-/);
  assert.equal(found.cuda, undefined);
  assert.match(found.cudaTrouble ?? "", /libcublasLt/);
});
