import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { hasCode } from "../core/errors.ts";
import { hashOfContent } from "../core/hash.ts";
import { areFinite, float32 } from "../core/tensor.ts";
import { openInlineExecutor } from "../engine/executor.ts";
import { openReferenceEngine } from "../engine/reference.ts";
import { giveBack, lend, messageMemory, open, openHeld, pack, packInPlace } from "./wire.ts";

describe("a tensor on the wire", () => {
  it("comes back as it was, rounded to the wire's type", () => {
    const tensor = float32([1, 4], [1, -0.333333, 65504, 1e-3]);
    assert.deepEqual(open(pack(tensor, "float32", "it")), tensor);
    for (const wire of ["float16", "bfloat16", "int8"] as const) {
      const once = open(pack(tensor, wire, "it"));
      assert.notDeepEqual(once.data, tensor.data);
      assert.deepEqual(open(pack(once, wire, "it")), once);
    }
  });

  it("owns its bytes: later changes of the source do not show", () => {
    const tensor = float32([2], [1, 2]);
    const packed = pack(tensor, "float32", "it");
    const hash = hashOfContent(packed);
    (tensor.data as Float32Array)[0] = 9;
    assert.equal(hashOfContent(packed), hash);
  });

  it("has a hash that tells type and shape apart", () => {
    const row = pack(float32([1, 4], [1, 2, 3, 4]), "float32", "it");
    const column = pack(float32([4, 1], [1, 2, 3, 4]), "float32", "it");
    assert.notEqual(hashOfContent(row), hashOfContent(column));
  });

  it("never holds NaN or infinity, not even by rounding", () => {
    const outOfRange = (error: unknown) => hasCode(error, "out_of_range");
    assert.throws(() => pack(float32([1], [Number.NaN]), "float32", "it"), outOfRange);
    assert.throws(() => pack(float32([1], [1e6]), "float16", "it"), outOfRange);
    assert.ok(pack(float32([1], [1e6]), "bfloat16", "it"));
    assert.ok(!areFinite("float16", new Uint8Array([0, 0x7c])));
    assert.ok(!areFinite("float32", new Uint8Array([0, 0, 0x80, 0xff])));
  });

  it("lies where it was computed, without a copy, until its last holder gives it back", () => {
    const executor = openInlineExecutor(openReferenceEngine());
    const computed = executor.tensor("float32", [32]);
    const packed = packInPlace(computed, "float32", "it", messageMemory(executor));
    assert.equal(packed.bytes.buffer, computed.data.buffer);
    lend(packed);
    giveBack(packed);
    assert.notEqual(executor.tensor("float32", [32]).data.buffer, computed.data.buffer, "somebody holds it");
    const feed = openHeld(packed);
    assert.equal(feed.data.buffer, computed.data.buffer);
    executor.recycle([feed]);
    assert.equal(executor.tensor("float32", [32]).data.buffer, computed.data.buffer, "nobody holds it");
  });

  it("is copied where it has to be rounded, and goes back at once where it is opened into another type", () => {
    const executor = openInlineExecutor(openReferenceEngine());
    const memory = messageMemory(executor);
    const computed = executor.tensor("float32", [32]);
    assert.notEqual(packInPlace(computed, "bfloat16", "it", memory).bytes.buffer, computed.data.buffer);
    const bytes = memory.allocate(64);
    openHeld({ dtype: "bfloat16", shape: [32], bytes, memory });
    assert.equal(memory.allocate(64).buffer, bytes.buffer);
  });
});
