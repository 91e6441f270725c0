// States in a blob store, moved a little, too far, and in ways that would let the next owner move too far.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sha256 } from "../../../core/hash.ts";
import type { Sha256 } from "../../../core/ids.ts";
import { writeStateManifest } from "../../../states/manifest.ts";
import type { BlobSpace } from "../../../store/blobs/blob-store.ts";
import { beyondBound } from "./weighing.ts";

const count = 1_000;
const bound = { fixed: 0.1, share: 0.01, moment: 7.3 };
const world = {
  timers: {
    after: (_: number, run: () => void) => {
      queueMicrotask(run);
      return () => {};
    },
  },
};

const set = (at: number, value: number) => (floats: Float32Array) => {
  floats[at] = value;
};

interface Change {
  readonly weight?: (floats: Float32Array) => void;
  readonly first?: (floats: Float32Array) => void;
  readonly second?: (floats: Float32Array) => void;
  readonly frozen?: (floats: Float32Array) => void;
  readonly shape?: readonly number[];
}

class Shelf {
  readonly #blobs = new Map<string, Uint8Array>();

  readonly states: Pick<BlobSpace, "get"> = {
    get: async (hash, range) => {
      const content = this.#blobs.get(hash) as Uint8Array;
      return range === undefined ? content : content.slice(range.start, range.end);
    },
  };

  #add(content: Uint8Array): Sha256 {
    this.#blobs.set(sha256(content), content);
    return sha256(content);
  }

  /** Weights of which no slice ends where a part does. */
  add(change: Change = {}): Sha256 {
    const make = (value: number, alter: ((floats: Float32Array) => void) | undefined) => {
      const floats = new Float32Array(count).fill(value);
      alter?.(floats);
      return floats;
    };
    const all = {
      frozen: make(5, change.frozen),
      w: make(1, change.weight),
      "optimizer.first.w": make(1e-3, change.first),
      "optimizer.second.w": make(1e-6, change.second),
    };
    const bytes = new Uint8Array(4 * count * 4);
    for (const [i, floats] of Object.values(all).entries()) bytes.set(new Uint8Array(floats.buffer), i * 4 * count);
    const partBytes = 1_500 * 4;
    const parts: Sha256[] = [];
    for (let at = 0; at < bytes.byteLength; at += partBytes) parts.push(this.#add(bytes.slice(at, at + partBytes)));
    const tensors = Object.keys(all).map((name) => ({
      name,
      dtype: "float32" as const,
      shape: change.shape ?? [count],
    }));
    return this.#add(writeStateManifest({ metadata: {}, tensors, bytes: bytes.byteLength, partBytes, parts }));
  }
}

describe("a state that is weighed", () => {
  const beyond = async (change: Change) => {
    const shelf = new Shelf();
    return beyondBound({ states: shelf.states, world, before: shelf.add(), after: shelf.add(change), bound });
  };

  it("passes as long as no weight moved further than its optimizer can", async () => {
    assert.equal(await beyond({}), undefined);
    assert.equal(await beyond({ weight: (floats) => floats.fill(1.109) }), undefined);
  });

  it("is refused for a single weight, wherever it lies", async () => {
    for (const at of [0, 499, 500, 999])
      assert.match(
        (await beyond({ weight: set(at, 1.2) })) ?? "",
        /^w: a weight moved by 0\.200, at most 0\.110 is possible$/,
      );
    assert.match((await beyond({ weight: set(7, Number.NaN) })) ?? "", /^w: a weight moved/);
  });

  it("is refused for moments that would carry whoever goes on too far, and for what never learns", async () => {
    assert.match((await beyond({ first: set(3, 0.1) })) ?? "", /moments follow from no gradients/);
    assert.match((await beyond({ second: set(999, -1) })) ?? "", /moments/);
    assert.match((await beyond({ frozen: set(0, 5.0001) })) ?? "", /^frozen: a weight moved/);
    assert.match((await beyond({ shape: [10, 100] })) ?? "", /another form/);
  });
});
