import assert from "node:assert/strict";
import { test } from "node:test";
import { base64Of, bytesOfBase64, bytesOfHex, freeBytes, hexOf, joinBytes, rawBytes, sameBytes } from "./bytes.ts";

const counted = (bytes: number) => Uint8Array.from({ length: bytes }, (_, i) => (i * 7) & 255);

test("texts of bytes are those that Node writes, and are read back", () => {
  for (const length of [0, 1, 2, 3, 255, 8_191, 8_192, 8_193, 20_000]) {
    const content = counted(length);
    assert.equal(base64Of(content), Buffer.from(content).toString("base64"));
    assert.equal(hexOf(content), Buffer.from(content).toString("hex"));
    assert.deepEqual(bytesOfBase64(base64Of(content)), content);
    assert.deepEqual(bytesOfHex(hexOf(content)), content);
  }
});

test("what is no such text is refused", () => {
  for (const text of ["a", "zz", "0x"]) assert.throws(() => bytesOfHex(text), { code: "invalid_argument" });
  for (const text of ["%", "a===", "=abc"]) assert.throws(() => bytesOfBase64(text), { code: "invalid_argument" });
});

test("bytes are joined and compared by content and length", () => {
  assert.deepEqual(joinBytes([counted(2), counted(0), counted(3)]), Uint8Array.of(0, 7, 0, 7, 14));
  assert.ok(sameBytes(counted(9), counted(9)));
  assert.ok(!sameBytes(counted(9), counted(8)));
  assert.ok(!sameBytes(Uint8Array.of(1, 2), Uint8Array.of(1, 3)));
  assert.equal(rawBytes(5).byteLength, 5);
});

test("memory that is given back is gone at once, and small pieces, which may share a block, are left alone", () => {
  const large = counted(1 << 16);
  const views = [large, large.subarray(5, 9)];
  freeBytes(large);
  freeBytes(large);
  assert.deepEqual(
    views.map(({ byteLength }) => byteLength),
    [0, 0],
  );
  const shared = counted(1 << 17);
  freeBytes(shared.subarray(0, 100));
  assert.deepEqual(shared, counted(1 << 17));
});
