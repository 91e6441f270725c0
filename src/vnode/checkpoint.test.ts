import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { hasCode } from "../core/errors.ts";
import { float32, type Tensor } from "../core/tensor.ts";
import { readCheckpoint, writeCheckpoint } from "./checkpoint.ts";

const tensors = new Map<string, Tensor>([
  ["a.weight", float32([2, 3], [1, -2, 3.5, 0, 1e-30, 6])],
  ["b", { dtype: "int64", shape: [2], data: BigInt64Array.from([5n, -7n]) }],
  ["empty", float32([0, 4], [])],
]);
const file = writeCheckpoint({ metadata: { step: "7" }, tensors });
const refused = (bytes: Uint8Array) => (error: unknown) => hasCode(error, "data_loss") && bytes.length >= 0;

describe("a checkpoint file", () => {
  it("gives back what was written, whatever the alignment of its bytes", () => {
    for (const shift of [0, 1, 4]) {
      const moved = new Uint8Array(file.length + shift).subarray(shift);
      moved.set(file);
      const { metadata, tensors: read } = readCheckpoint(moved, "it");
      assert.deepEqual(metadata, { step: "7" });
      assert.deepEqual([...read.keys()], [...tensors.keys()]);
      for (const [name, tensor] of tensors) assert.deepEqual(read.get(name), tensor);
    }
  });

  it("is refused wherever it is cut", () => {
    for (let length = 0; length < file.length; length++)
      assert.throws(() => readCheckpoint(file.slice(0, length), "it"), refused(file));
  });

  it("is refused when its header claims what is not there", () => {
    const withHeader = (header: unknown, data = 8) => {
      const text = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header));
      const bytes = new Uint8Array(8 + text.length + data);
      new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
      bytes.set(text, 8);
      return bytes;
    };
    const entry = { dtype: "F32", shape: [2], data_offsets: [0, 8] };
    assert.equal(readCheckpoint(withHeader({ a: entry }), "it").tensors.size, 1);
    const wrong = [
      "[]",
      "{",
      { a: null },
      { a: { ...entry, dtype: "Q7" } },
      { a: { ...entry, shape: [3] } },
      { a: { ...entry, shape: [-2] } },
      { a: { ...entry, shape: [1e9, 1e9] } },
      { a: { ...entry, data_offsets: [4, 12] } },
      { a: { ...entry, data_offsets: [-8, 0] } },
      { a: { ...entry, data_offsets: "0-8" } },
    ];
    for (const header of wrong) assert.throws(() => readCheckpoint(withHeader(header), "it"), refused(file));
    const huge = new Uint8Array(16).fill(0xff);
    assert.throws(() => readCheckpoint(huge, "it"), refused(huge));
  });
});
