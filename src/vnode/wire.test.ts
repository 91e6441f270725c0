import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { hasCode } from "../core/errors.ts";
import { hashOfContent } from "../core/hash.ts";
import { areFinite, float32 } from "../core/tensor.ts";
import { open, seal, sumInOrder } from "./wire.ts";

describe("a tensor on the wire", () => {
  it("comes back as it was, rounded to the wire's type", () => {
    const tensor = float32([1, 4], [1, -0.333333, 65504, 1e-3]);
    assert.deepEqual(open(seal(tensor, "float32", "it").payload), tensor);
    for (const wire of ["float16", "bfloat16"] as const) {
      const once = open(seal(tensor, wire, "it").payload);
      assert.notDeepEqual(once.data, tensor.data);
      assert.deepEqual(open(seal(once, wire, "it").payload), once);
    }
  });

  it("owns its bytes: later changes of the source do not show", () => {
    const tensor = float32([2], [1, 2]);
    const { payload, hash } = seal(tensor, "float32", "it");
    (tensor.data as Float32Array)[0] = 9;
    assert.equal(hashOfContent(payload), hash);
  });

  it("has a hash that tells type and shape apart", () => {
    const row = seal(float32([1, 4], [1, 2, 3, 4]), "float32", "it");
    const column = seal(float32([4, 1], [1, 2, 3, 4]), "float32", "it");
    assert.notEqual(row.hash, column.hash);
  });

  it("never holds NaN or infinity, not even by rounding", () => {
    const outOfRange = (error: unknown) => hasCode(error, "out_of_range");
    assert.throws(() => seal(float32([1], [Number.NaN]), "float32", "it"), outOfRange);
    assert.throws(() => seal(float32([1], [1e6]), "float16", "it"), outOfRange);
    assert.ok(seal(float32([1], [1e6]), "bfloat16", "it"));
    assert.ok(!areFinite("float16", new Uint8Array([0, 0x7c])));
    assert.ok(!areFinite("float32", new Uint8Array([0, 0, 0x80, 0xff])));
  });

  it("is summed in the order given", () => {
    const [big, minus, small] = [1e8, -1e8, 1].map((value) => float32([1], [value]));
    assert.equal(sumInOrder([big!, minus!, small!]).data[0], 1);
    assert.equal(sumInOrder([small!, big!, minus!]).data[0], 0);
  });
});
