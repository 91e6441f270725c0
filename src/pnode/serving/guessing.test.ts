// Tokens that come several at a time, because the text repeats itself, a draft guesses it or a schema leaves no choice: fewer passes, the
// same text.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Constraint } from "../../models/choosing.ts";
import { greedy } from "../../models/sampling.ts";
import { alone, answerTo, chanceOf, draftThat, isOver, read, requestOf, Stages } from "./conductor.testing.ts";

test("what an answer repeats comes several tokens at a time, and costs no more passes than needed", async () => {
  // A model that says the same ten tokens again and again.
  const stages = new Stages({ context: 400, positionsMax: 4_000, stageMs: () => 0.01 });
  const request = { ...requestOf(1, 30, 200), prompt: Array.from({ length: 30 }, (_, i) => i % 5) };
  const reader = read(stages.conductor, { ...request, sampling: { ...greedy, logitBias: { 0: 1e6 } } });
  await stages.drive(() => isOver(reader), chanceOf(1));
  assert.deepEqual(new Set(reader.tokens), new Set([0]));
  assert.ok(stages.passes < 60, `${stages.passes} passes for 200 tokens`);
});

/** One sequence that no text repeats, and nothing else; what comes next is told. */
function fixed(length: number): Constraint {
  const sequence = Array.from({ length }, (_, i) => (i * i + (i >> 2)) % 7);
  let at = 0;
  return {
    allowed: () => Uint32Array.of(1 << (sequence[at] as number)),
    guess: (count) => sequence.slice(at, at + count),
    accept: (token) => assert.equal(token, sequence[at++]),
    ...{ mayEnd: false, isOver: false },
  };
}

test("new text comes several tokens at a time with a draft that agrees, and what it guessed is counted", async () => {
  const request = requestOf(3, 10, 80);
  const passes: number[] = [];
  for (const drafter of [undefined, draftThat(0), draftThat(1)]) {
    const { reader, stages } = await alone(request, chanceOf(1), undefined, {
      ...{ stageMs: () => 0.01, ...(drafter && { drafter }) },
    });
    assert.deepEqual(reader.tokens, answerTo(request));
    passes.push(stages.passes);
    const { guessed, right } = stages.conductor.load.guesses.draft;
    if (drafter === undefined) assert.equal(guessed, 0);
    else assert.ok(guessed > 0 && right <= guessed);
  }
  const [plain, wrong, agreed] = passes as [number, number, number];
  assert.ok(agreed < plain / 2, `${agreed} passes, ${plain} without a draft`);
  assert.ok(wrong <= plain, "a draft that is wrong costs no passes");
});

test("what an answer must fit tells tokens in advance: they come several at a time, and are the same", async () => {
  const found: { passes: number; text: string }[] = [];
  for (const without of [[], ["drafts"]] as const) {
    const stages = new Stages({ context: 400, positionsMax: 4_000, stageMs: () => 0.01, without });
    const reader = read(stages.conductor, { ...requestOf(1, 5, 120), constraint: fixed(140) });
    await stages.drive(() => isOver(reader), chanceOf(1));
    assert.equal(reader.tokens.length, 120);
    found.push({ passes: stages.passes, text: reader.tokens.join() });
  }
  const [guessed, plain] = found as [(typeof found)[0], (typeof found)[0]];
  assert.equal(guessed.text, plain.text);
  assert.ok(2 * guessed.passes < plain.passes, `${guessed.passes} passes with guesses, ${plain.passes} without`);
});

for (const hopMs of [1, 20, 100])
  test(`${hopMs} ms between machines: what repeats itself comes more than twice as fast with guesses, and is the same`, async () => {
    const tookMs: number[] = [];
    const texts: string[] = [];
    for (const without of [[], ["drafts"]] as const) {
      const stages = new Stages({ context: 400, positionsMax: 4_000, stageMs: () => 1, without });
      stages.hopMs = hopMs;
      const prompt = Array.from({ length: 30 }, (_, i) => i % 5);
      const sampling = { ...greedy, logitBias: { 0: 1e6 } };
      const reader = read(stages.conductor, { ...requestOf(1, 30, 200), prompt, sampling });
      await stages.drive(() => isOver(reader), chanceOf(1));
      tookMs.push(stages.nowMs);
      texts.push(reader.tokens.join());
    }
    const [guessed, plain] = tookMs as [number, number];
    assert.equal(texts[0], texts[1]);
    assert.ok(plain >= 2 * guessed, `${guessed} ms with guesses, ${plain} ms without`);
  });
