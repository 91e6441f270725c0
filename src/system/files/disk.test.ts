import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { hasCode } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { digestAside } from "../digest.ts";
import { Remembered } from "./remembered.ts";
import { openSpill } from "./spill.ts";

const folder = mkdtempSync(join(tmpdir(), "dcnr-system-"));
after(() => rmSync(folder, { recursive: true }));

describe("the spill", () => {
  it("gives back what was written, into memory of its own or into the room given", async () => {
    const spill = await openSpill(join(folder, "one"));
    const content = new Uint8Array(100_000).map((_, i) => i * 3);
    await spill.write("a/b", content);
    assert.deepEqual(new Uint8Array(await spill.read("a/b")), content);
    const room = new Uint8Array(content.byteLength);
    assert.equal(await spill.read("a/b", room), room);
    assert.deepEqual(room, content);
    await assert.rejects(spill.read("a/b", new Uint8Array(content.byteLength + 1)), (error: unknown) =>
      hasCode(error, "data_loss"),
    );
    await spill.remove("a/b");
    await spill.remove("a/b");
    await assert.rejects(spill.read("a/b"));
  });

  it("never takes more than is lent to it, and has room again for what was removed", async () => {
    const spill = await openSpill(join(folder, "three"), 100);
    const full = (error: unknown) => hasCode(error, "resource_exhausted");
    const outcomes = await Promise.allSettled(["a", "b", "c"].map((key) => spill.write(key, new Uint8Array(40))));
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ["fulfilled", "fulfilled", "rejected"],
      "what is being written counts",
    );
    assert.equal(spill.bytesHeld, 80);
    await assert.rejects(spill.write("a", new Uint8Array(61)), full);
    await spill.write("a", new Uint8Array(60));
    await spill.remove("a");
    await spill.write("c", new Uint8Array(60));
    assert.equal(spill.bytesHeld, 100);
    assert.equal((await spill.read("b")).byteLength, 40, "nothing that was there is lost");
  });

  it("keeps what has long names apart", async () => {
    const spill = await openSpill(join(folder, "four"));
    const name = "v".repeat(300);
    await spill.write(`${name}/part-1`, Uint8Array.of(1));
    await spill.write(`${name}/part-2`, Uint8Array.of(2));
    assert.deepEqual([...(await spill.read(`${name}/part-1`))], [1]);
  });

  it("is empty at every start", async () => {
    const first = await openSpill(join(folder, "two"));
    await first.write("x", new Uint8Array(3));
    await openSpill(join(folder, "two"));
    assert.deepEqual(readdirSync(join(folder, "two", "spill")), []);
  });
});

describe("a hash on another thread", () => {
  it("is the same as on this one, whatever the size and the memory", async () => {
    for (const bytes of [0, 1, 65_536, 65_537, 3_000_000]) {
      const content = new Uint8Array(bytes + 7).map((_, i) => i).subarray(7);
      assert.equal(await digestAside(content), sha256(content));
      const shared = new Uint8Array(new SharedArrayBuffer(bytes));
      shared.set(content);
      assert.equal(await digestAside(shared), sha256(content));
    }
  });
});

describe("what is remembered", () => {
  it("counts only under the key it was measured with", async () => {
    const memory = new Remembered<number>(folder, "measured.json", "this machine");
    assert.equal(await memory.get(), undefined);
    await memory.set(5);
    assert.equal(await memory.get(), 5);
    assert.equal(await new Remembered<number>(folder, "measured.json", "another").get(), undefined);
  });

  it("is said to be damaged if it is, and names the folder and the remedy if it cannot be kept", async () => {
    writeFileSync(join(folder, "damaged.json"), "{");
    await assert.rejects(new Remembered<number>(folder, "damaged.json", "k").get(), (error: unknown) =>
      hasCode(error, "data_loss"),
    );
    const nowhere = new Remembered<number>(join(folder, "nowhere"), "measured.json", "k");
    await assert.rejects(nowhere.set(1), /cannot write .*nowhere.*--dir/);
  });
});
