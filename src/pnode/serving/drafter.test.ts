// What a small model is given to read while others decide what is right: each token once, several requests in one pass, within its memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, type World } from "../../core/world.ts";
import { type DrafterOptions, ModelDrafter } from "./drafter.ts";
import { passTokensMax } from "./pass.ts";

const vocabulary = 10;

/** A model that counts: behind 3 comes 4. A pass takes 2 ms. */
class Counting {
  readonly passes: { request: string; position: number; ids: number[] }[][] = [];
  readonly dropped: string[] = [];
  readonly drafter: ModelDrafter;
  failure: unknown;
  isBroken = false;
  #nowMs = 0;

  constructor(options: Partial<DrafterOptions> = {}) {
    const nowMs = () => this.#nowMs;
    const world: World = {
      clock: { wallMs: nowMs, monotonicMs: nowMs },
      timers: { after: () => () => {} },
      chance: { bytes: (count) => new Uint8Array(count), uniform: () => 0.5 },
      log: silentLog,
    };
    this.drafter = new ModelDrafter({
      ...{ world, context: 1_000, positionsMax: 4_000, vocabulary },
      run: async (rows, ids, take) => {
        await new Promise((resolve) => setImmediate(resolve));
        this.#nowMs += 2;
        if (this.isBroken) throw new Error("it fell over");
        let at = 0;
        const pass = rows.map(({ request, position, tokens }) => {
          at += tokens;
          return { request, position, ids: [...ids.subarray(at - tokens, at)] };
        });
        this.passes.push(pass);
        const wanted = pass.filter((_, i) => rows[i]?.logits === 1);
        take({
          values: Float32Array.from(wanted.flatMap((row) => oneHot(((row.ids.at(-1) as number) + 1) % 12))),
          width: 12,
        });
      },
      drop: (requests) => this.dropped.push(...requests),
      onFailure: (error) => {
        this.failure = error;
      },
      ...options,
    });
  }

  ask(key: string, tokens: readonly number[], count: number): Promise<readonly number[]> {
    return this.drafter.guess({ key, tokens, count, choose: (logits) => logits.indexOf(1) });
  }
}

function oneHot(token: number): number[] {
  return Array.from({ length: 12 }, (_, i) => (i === token ? 1 : 0));
}

test("it goes on from what is known, and reads of each answer only what it has not read", async () => {
  const counting = new Counting();
  assert.deepEqual(await counting.ask("a", [0, 1, 2], 3), [3, 4, 5]);
  assert.deepEqual(
    counting.passes.map(([row]) => [row?.position, row?.ids]),
    [
      [0, [0, 1, 2]],
      [3, [3]],
      [4, [4]],
    ],
  );
  counting.passes.length = 0;
  // Two of the guesses were right, the third was not.
  assert.deepEqual(await counting.ask("a", [0, 1, 2, 3, 4, 7], 2), [8, 9]);
  assert.deepEqual([counting.passes[0]?.[0]?.position, counting.passes[0]?.[0]?.ids], [5, [7]]);
});

test("all who ask share passes, and each is told its own", async () => {
  const counting = new Counting();
  const [a, b] = await Promise.all([counting.ask("a", [1], 3), counting.ask("b", [5], 3)]);
  assert.deepEqual(
    [a, b],
    [
      [2, 3, 4],
      [6, 7, 8],
    ],
  );
  assert.ok(counting.passes.length <= 4, `${counting.passes.length} passes for six guesses`);
});

test("a long prompt is read in pieces, without a guess if none is wanted", async () => {
  const counting = new Counting();
  const prompt = Array.from({ length: 700 }, (_, i) => i % 5);
  assert.equal(counting.drafter.unread("a", prompt), 700);
  assert.deepEqual(await counting.ask("a", prompt, 0), []);
  assert.equal(counting.drafter.unread("a", prompt), 0);
  assert.ok(counting.passes.every((rows) => rows.every(({ ids }) => ids.length <= passTokensMax)));
  assert.equal(counting.passes.length, Math.ceil(700 / passTokensMax));
});

test("it says nothing beyond its context, its memory and what both models can write", async () => {
  const counting = new Counting({ context: 6, positionsMax: 8 });
  assert.deepEqual(await counting.ask("a", [0, 1, 2, 3], 5), [4, 5]);
  assert.equal(counting.drafter.unread("a", [0, 1, 2, 3, 4, 5]), undefined);
  assert.deepEqual(await counting.ask("b", [1, 2, 3, 4], 1), [], "others fill its memory");
  counting.drafter.drop("a");
  assert.deepEqual(counting.dropped, ["a"]);
  assert.deepEqual(await counting.ask("b", [1, 2, 3, 4], 1), [5]);
  assert.deepEqual(await new Counting().ask("c", [8], 5), [9], "10 is no token of both");
  assert.equal(new Counting().drafter.unread("c", [11]), undefined);
});

test("what a guess takes is known before anybody asks", async () => {
  const counting = new Counting();
  assert.equal(counting.drafter.tokenMs, 0);
  await counting.drafter.measure();
  assert.equal(counting.drafter.tokenMs, 2);
});

test("one that fails says nothing more, and whoever waits is answered", async () => {
  const counting = new Counting();
  counting.isBroken = true;
  const answers = await Promise.all([counting.ask("a", [1], 3), counting.ask("b", [1], 3)]);
  assert.deepEqual(answers, [[], []]);
  assert.match(String(counting.failure), /it fell over/);
  assert.equal(counting.drafter.tokenMs, undefined);
  assert.deepEqual(await counting.ask("a", [1], 3), []);
});
