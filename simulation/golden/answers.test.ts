// Any change of what served models answer fails here first: replicas of one version repeat each other's answers bit for bit.

import assert from "node:assert/strict";
import { test } from "node:test";
import { answerBits } from "../../src/core/bits.ts";
import { answerChanges, computeAnswers, readGoldenAnswers } from "./answers.ts";

const golden = readGoldenAnswers();

test("the golden answers belong to this version of the bits of answers", () => {
  assert.equal(golden.answerBits, answerBits, "run `npm run golden`, since `answerBits` was bumped");
});

test("served models give the golden answers", async () => {
  const now = await computeAnswers();
  const remedy = "if this is meant, bump `answerBits` in src/core/bits.ts and run `npm run golden`";
  assert.deepEqual(answerChanges(golden, now), [], `answers have changed: ${remedy}`);
  assert.deepEqual(Object.keys(now.answers).sort(), Object.keys(golden.answers).sort(), "run `npm run golden`");
  const said = Object.values(golden.answers).map(({ logits }) => logits);
  assert.equal(new Set(said).size, said.length, "no two answers are the same, so each says something of its own");
});

test("a change of a token, of logits alone and of what the native engine is given is each named", () => {
  const [what, known] = Object.entries(golden.answers)[0]!;
  const other = (change: Partial<typeof known>) => ({
    ...golden,
    answers: { ...golden.answers, [what]: { ...known, ...change } },
  });
  assert.match(answerChanges(golden, other({ logits: "x" })).join(), /has other logits/);
  assert.match(answerChanges(golden, other({ tokens: [...known.tokens, 1] })).join(), /has other tokens/);
  assert.match(answerChanges(golden, { ...golden, native: { "4bit": "x" } }).join(), /native engine .* for 4bit/);
});
