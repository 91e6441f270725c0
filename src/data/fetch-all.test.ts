import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../core/hash.ts";
import { fetchAll, type SizedBlob } from "./fetch-all.ts";

const blobs: SizedBlob[] = Array.from({ length: 40 }, (_, index) => ({ hash: sha256(`shard ${index}`), bytes: 1 }));

describe("a dataset that several machines fetch whole", () => {
  it("is nearly all there between them when its source goes before anybody has half of it", async () => {
    const found = new Set<string>();
    for (const machine of ["p1", "p2", "p3", "p4"]) {
      let given = 0;
      const give = async ({ hash }: SizedBlob) => {
        if (++given > 19) throw new Error("nobody is there any more");
        found.add(hash);
      };
      await assert.rejects(fetchAll(machine, blobs, give, new AbortController().signal), /nobody is there/);
    }
    // In one order for all it would be 19.
    assert.ok(found.size >= 36, `${found.size} of 40`);
  });

  it("is fetched but for what cannot be had, and that is said when the rest is there", async () => {
    const found = new Set<string>();
    const missing = (blobs[7] as SizedBlob).hash;
    const give = async ({ hash }: SizedBlob) => {
      if (hash === missing) throw new Error("nobody has it");
      found.add(hash);
    };
    await assert.rejects(fetchAll("p1", blobs, give, new AbortController().signal), /nobody has it/);
    assert.equal(found.size, blobs.length - 1);
  });

  it("is fetched no further once the machine stops", async () => {
    const stop = new AbortController();
    let asked = 0;
    await fetchAll("p1", blobs, async () => void (++asked === 5 && stop.abort()), stop.signal);
    assert.ok(asked < 10, `${asked} were asked for`);
  });
});
