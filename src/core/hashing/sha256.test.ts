import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { openSha256 } from "./sha256.ts";

const expected = (content: Uint8Array) => createHash("sha256").update(content).digest("hex");
const counted = (bytes: number) => Uint8Array.from({ length: bytes }, (_, i) => (i * 31 + (i >> 8)) & 255);

test("it is SHA-256 for every length around blocks, groups of blocks and the end of its memory", () => {
  const hash = openSha256();
  const lengths = [...Array(600).keys(), ...[-65, -64, -9, -8, -1, 0, 1, 64].map((more) => 4096 * 64 + more), 700_001];
  for (const length of lengths) {
    const content = counted(length);
    hash.update(content);
    assert.equal(hash.digest(), expected(content), `${length} bytes`);
  }
});

test("parts are as good as the whole, text is UTF-8, and shared memory is read where it lies", () => {
  const hash = openSha256();
  const content = counted(300_000);
  const shared = new Uint8Array(new SharedArrayBuffer(200_000));
  shared.set(content.subarray(0, 200_000));
  hash.update(shared.subarray(0, 77));
  hash.update(shared.subarray(77));
  hash.update(content.subarray(200_000));
  assert.equal(hash.digest(), expected(content));
  hash.update("Ünïcödé €");
  assert.equal(hash.digest(), expected(new TextEncoder().encode("Ünïcödé €")));
});
