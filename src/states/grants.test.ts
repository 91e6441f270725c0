import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../core/hash.ts";
import { GroupedGrants, grantsAtOnceMax, groupsOf, type MovedBlob } from "./grants.ts";

const blobs = (count: number, bytes: number): MovedBlob[] =>
  Array.from({ length: count }, (_, index) => ({ hash: sha256(new Uint8Array([index & 255, index >> 8])), bytes }));

describe("grants in groups", () => {
  it("asks once for a small state, whatever the order in which its blobs are moved", async () => {
    const asked: number[] = [];
    const all = blobs(7, 256);
    const grants = new GroupedGrants(all, async (group) => {
      asked.push(group.length);
      return group.map(({ hash }) => hash);
    });
    const got = await Promise.all([6, 0, 3, 3].map((index) => grants.of(index)));
    assert.deepEqual(
      got,
      [6, 0, 3, 3].map((index) => all[index]?.hash),
    );
    assert.deepEqual(asked, [7]);
  });

  it("asks for the next parts of a large state only when they are moved", async () => {
    const asked: number[] = [];
    const all = blobs(9, 16 << 20);
    const grants = new GroupedGrants(all, async (group) => {
      asked.push(group.length);
      return group.map(({ hash }) => hash);
    });
    assert.equal(await grants.of(0), all[0]?.hash);
    assert.deepEqual(asked, [4]);
    assert.equal(await grants.of(8), all[8]?.hash);
    assert.deepEqual(asked, [4, 1]);
    assert.equal(await grants.of(5), all[5]?.hash);
    assert.deepEqual(asked, [4, 1, 4]);
  });

  it("names no more at once than may be named, and leaves none out", () => {
    for (const all of [blobs(1, 0), blobs(64, 1), blobs(65, 1), blobs(300, 1 << 20), blobs(3, 100 << 20)]) {
      const groups = groupsOf(all);
      assert.deepEqual(groups.flat(), all);
      assert.ok(groups.every(({ length }) => length >= 1 && length <= grantsAtOnceMax));
    }
    assert.equal(groupsOf(blobs(65, 1)).length, 2);
  });

  it("keeps a failure: all parts of the group fail alike", async () => {
    const grants = new GroupedGrants(blobs(2, 1), async () => {
      throw new Error("no orchestrator");
    });
    await assert.rejects(grants.of(0), /no orchestrator/);
    await assert.rejects(grants.of(1), /no orchestrator/);
  });
});
