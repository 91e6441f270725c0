import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeCrypto } from "../../core/hashing/node-crypto.ts";
import { type Aead, Cipher, nodeAead, webAead } from "./seal-keys.ts";

const secret = new Uint8Array(32).fill(5);
const nonce = new Uint8Array(12).fill(1);
const content = new TextEncoder().encode("what only two may know");
const bound = new TextEncoder().encode("and nobody moves");

describe("records of sealed lines", () => {
  it("are the same by WebCrypto and by Node's library", async () => {
    assert.ok(nodeCrypto !== undefined);
    const ways: readonly Aead[] = [await webAead(secret), nodeAead(nodeCrypto, secret)];
    const [web, node] = await Promise.all(ways.map((way) => way.seal(nonce, content, bound)));
    assert.deepEqual(web, node);
    for (const way of ways) {
      assert.deepEqual(await way.open(nonce, web as Uint8Array, bound), content);
      await assert.rejects(async () => way.open(nonce, web as Uint8Array, content));
    }
  });

  it("cannot be changed, repeated or moved", async () => {
    const [first, second] = await Promise.all([0, 1].map(async () => (await Cipher.of(secret)).seal(content)));
    assert.deepEqual(first, second, "each begins with the number 0");
    const reader = await Cipher.of(secret);
    const record = first as Uint8Array;
    assert.deepEqual(await reader.open(record), content);
    await assert.rejects(reader.open(record), { code: "unavailable" });
    for (const at of [0, record.byteLength - 1]) {
      const changed = record.slice();
      changed[at] = (changed[at] as number) ^ 1;
      await assert.rejects((await Cipher.of(secret)).open(changed), { code: "unavailable" });
    }
  });
});
