// Both ways to hash a large content, against the simplest one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ownPages } from "../core/bytes.ts";
import { sha256 } from "../core/hash.ts";
import { digestAside, digestInSlices } from "./digest.ts";

test("contents of any size have one hash, also in memory that threads share or that can be resized", async () => {
  for (const bytes of [0, 1, 256 << 10, (256 << 10) + 1, 1_000_003]) {
    const plain = Uint8Array.from({ length: bytes }, (_, i) => i * 7 + (i >> 8));
    const [shared, resizable] = [new SharedArrayBuffer(bytes), ownPages(bytes)].map((made) => new Uint8Array(made));
    for (const content of [plain, shared!, resizable!]) {
      content.set(plain);
      assert.equal(await digestInSlices(content), sha256(plain));
    }
    assert.equal(await digestAside(plain), sha256(plain));
    assert.equal(await digestAside(shared!), sha256(plain));
  }
});
