import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { sha256 } from "../core/hash.ts";
import { openDiskCache } from "./disk-cache.ts";

const scratch = mkdtempSync(join(tmpdir(), "disk-cache-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

let wallMs = 1_000_000;
const clock = { wallMs: () => (wallMs += 60_000) };
const blob = (value: number, bytes = 100) => new Uint8Array(bytes).fill(value);
const open = (name: string, bytesMax = 300) => openDiskCache({ folder: join(scratch, name), bytesMax, clock });

const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
const bytesIn = (name: string) =>
  readdirSync(join(scratch, name)).reduce((sum, file) => sum + sizeOf(join(scratch, name, file)), 0);

describe("a disk cache", () => {
  it("gives back what was put, also after a restart", async () => {
    const first = await open("a");
    await first.put(sha256(blob(1)), blob(1));
    assert.deepEqual(new Uint8Array((await first.get(sha256(blob(1))))!), blob(1));
    assert.equal(await first.get(sha256(blob(2))), undefined);
    const second = await open("a");
    assert.equal(second.bytesHeld, 100);
    assert.deepEqual(new Uint8Array((await second.get(sha256(blob(1))))!), blob(1));
  });

  it("stays within its limit and lets the least recently used go, across restarts", async () => {
    const first = await open("b");
    for (const value of [1, 2, 3]) await first.put(sha256(blob(value)), blob(value));
    for (const value of [2, 3, 1]) await first.get(sha256(blob(value)));
    const second = await open("b");
    await second.put(sha256(blob(4)), blob(4));
    assert.equal(await second.get(sha256(blob(2))), undefined);
    for (const value of [1, 3, 4]) assert.ok(await second.get(sha256(blob(value))), `${value} is kept`);
    assert.ok(bytesIn("b") <= 300);
    assert.equal((await open("b", 150)).bytesHeld, 100);
  });

  it("stays within its limit when many are put at once", async () => {
    const cache = await open("c");
    let most = 0;
    const watching = setInterval(() => {
      most = Math.max(most, bytesIn("c"));
    });
    await Promise.all(Array.from({ length: 20 }, (_, i) => cache.put(sha256(blob(i)), blob(i))));
    await Promise.all(Array.from({ length: 20 }, (_, i) => cache.put(sha256(blob(50 + i)), blob(50 + i))));
    clearInterval(watching);
    assert.ok(Math.max(most, bytesIn("c")) <= 300, "what is being written counts too");
    assert.ok(cache.bytesHeld <= 300);
    assert.ok(readdirSync(join(scratch, "c")).length <= 3);
  });

  it("takes nothing that is larger than itself, and forgets what is damaged or unfinished", async () => {
    const cache = await open("d");
    await cache.put(sha256(blob(1, 301)), blob(1, 301));
    assert.equal(cache.bytesHeld, 0);
    await cache.put(sha256(blob(2)), blob(2));
    writeFileSync(join(scratch, "d", sha256(blob(2))), "damaged");
    assert.equal(await cache.get(sha256(blob(2))), undefined);
    assert.equal(cache.bytesHeld, 0);
    writeFileSync(join(scratch, "d", "unfinished-7"), "half");
    writeFileSync(join(scratch, "d", "what nobody counts"), "whole");
    await open("d");
    assert.deepEqual(readdirSync(join(scratch, "d")), []);
  });
});
