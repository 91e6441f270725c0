import assert from "node:assert/strict";
import { test } from "node:test";
import { DataType } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import { readTensor } from "./explicit-tensors.ts";

test("nested lists become a tensor of their shape", async () => {
  const { dtype, shape, data } = await readTensor("[[0.5, 2], [3, -4], [5, 6]]", "float32");
  assert.equal(dtype, DataType.FLOAT32);
  assert.deepEqual(shape, [3, 2]);
  assert.deepEqual([...new Float32Array(data.buffer)], [0.5, 2, 3, -4, 5, 6]);
  assert.deepEqual([...new Int32Array((await readTensor("[[7, 8]]", "int32")).data.buffer)], [7, 8]);
});

test("what is no tensor is refused in a sentence that says where", async () => {
  const refusals: [string, RegExp][] = [
    ["[[1, 2], [3]]", /inputs\[1\] must have 2 values/],
    ["[[1, [2]]]", /inputs\[0\]\[1\] must be a number/],
    ['[["a"]]', /inputs\[0\]\[0\] must be a number, found "a"/],
    ["5", /must be a list of samples/],
    ["[]", /must be a list of samples/],
    ["[1,", /not JSON/],
    ["@/nowhere/at/all.json", /cannot be read/],
  ];
  for (const [given, message] of refusals) await assert.rejects(readTensor(given, "float32"), { message });
  await assert.rejects(readTensor("[[1.5]]", "int32"), /has 1\.5, but the model takes whole numbers/);
});
