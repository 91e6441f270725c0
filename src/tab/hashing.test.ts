import { strict as assert } from "node:assert";
import { test } from "node:test";
import { hashOfContent, sha256 } from "../core/hash.ts";
import { digestOfWeb, hashOfWeb } from "./hashing.ts";

test("the browser's hash and ours name the same content alike, small or large, in shared memory too", async () => {
  for (const length of [0, 4, 1024, (32 << 10) - 4, 32 << 10, 200_004]) {
    const bytes = new Uint8Array(new SharedArrayBuffer(length)).map((_, i) => (i * 31) & 255);
    const shared = new Uint8Array(new SharedArrayBuffer(length + 8)).subarray(8);
    shared.set(bytes);
    const content = { dtype: "float32", shape: [length / 4], bytes: shared };
    assert.equal(await hashOfWeb(content), hashOfContent(content), `${length} bytes`);
    assert.equal(await digestOfWeb(shared), sha256(shared), `${length} bytes`);
  }
});

test("what is small is hashed at once", () => {
  const content = { dtype: "float32", shape: [4], bytes: new Uint8Array(16) };
  assert.equal(hashOfWeb(content), hashOfContent(content));
});
