import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fillNormal, randomKey } from "../core/numbers/random.ts";
import { checkSampling, greedy, type SamplingSettings, sampleToken } from "./sampling.ts";

const settings: SamplingSettings = { ...greedy, temperature: 1, seed: 5 };

function logitsOf(count: number, seed = 1): Float32Array {
  const logits = new Float32Array(count);
  fillNormal(logits, randomKey("logits", seed), 2);
  return logits;
}

/** The plain way: sort, cut, normalise. */
function distribution(logits: Float32Array, { temperature, topK, topP }: SamplingSettings): Map<number, number> {
  const most = Math.max(...logits);
  let ranked = [...logits].map((logit, token) => ({ token, weight: Math.exp((logit - most) / temperature) }));
  ranked.sort((a, b) => b.weight - a.weight || a.token - b.token);
  if (topK > 0) ranked = ranked.slice(0, topK);
  const total = ranked.reduce((sum, one) => sum + one.weight, 0);
  let sum = 0;
  const kept = ranked.filter(({ weight }) => {
    const wanted = sum < topP * total;
    sum += weight;
    return wanted;
  });
  const whole = kept.reduce((all, one) => all + one.weight, 0);
  return new Map(kept.map(({ token, weight }) => [token, weight / whole]));
}

describe("sampling", () => {
  it("without temperature takes the largest logit, the first of equals", () => {
    assert.equal(sampleToken(Float32Array.of(1, 3, 2), [], greedy, 0), 1);
    assert.equal(sampleToken(Float32Array.of(1, 3, 3), [], greedy, 0), 1);
    assert.equal(sampleToken(Float32Array.of(-5, -3), [], { ...settings, topK: 1 }, 0), 1);
    assert.equal(sampleToken(Float32Array.of(-5, -3), [], { ...settings, topP: 0 }, 0), 1);
  });

  for (const change of [
    {},
    { temperature: 0.5 },
    { temperature: 3 },
    { topK: 4 },
    { topP: 0.7 },
    { topK: 6, topP: 0.6, temperature: 1.5 },
    { topK: 100 },
  ])
    it(`draws tokens as often as their probability says: ${JSON.stringify(change)}`, () => {
      const logits = logitsOf(12);
      const chosen = { ...settings, ...change };
      const expected = distribution(logits, chosen);
      const draws = 6000;
      const counts = new Map<number, number>();
      for (let position = 0; position < draws; position++) {
        const token = sampleToken(logits, [], chosen, position);
        counts.set(token, (counts.get(token) ?? 0) + 1);
      }
      for (const token of counts.keys()) assert.ok(expected.has(token), `token ${token} was cut off`);
      for (const [token, probability] of expected) {
        // Five deviations of a binomial count.
        const slack = 5 * Math.sqrt(draws * probability * (1 - probability)) + 1;
        assert.ok(Math.abs((counts.get(token) ?? 0) - draws * probability) <= slack, `token ${token}`);
      }
    });

  it("is the same for the same seed and position, and differs between them", () => {
    const logits = logitsOf(1000);
    const answer = (seed: number) =>
      Array.from({ length: 50 }, (_, position) => sampleToken(logits, [], { ...settings, seed }, position));
    assert.deepEqual(answer(1), answer(1));
    assert.notDeepEqual(answer(1), answer(2));
    assert.ok(new Set(answer(1)).size > 10);
  });

  it("makes tokens that occurred less likely, whether their logit is positive or negative", () => {
    const penalty = { ...greedy, repetitionPenalty: 2 };
    assert.equal(sampleToken(Float32Array.of(3, 2), [0, 0], penalty, 0), 1);
    assert.equal(sampleToken(Float32Array.of(-1, -1.5), [0], penalty, 0), 1);
    assert.equal(sampleToken(Float32Array.of(3, 1), [0], penalty, 0), 0);
    const logits = Float32Array.of(3, 2);
    sampleToken(logits, [0], penalty, 0);
    assert.deepEqual([...logits], [3, 2]);
  });

  it("takes from logits what the penalties say, by what was chosen and not by what was asked", () => {
    const drawn = (logits: number[], history: number[], change: Partial<SamplingSettings>, promptLength = 0) =>
      sampleToken(Float32Array.from(logits), history, { ...greedy, ...change }, history.length, promptLength);
    assert.equal(drawn([3, 2], [0], { frequencyPenalty: 0.75 }), 0, "once is not enough");
    assert.equal(drawn([3, 2], [0, 0], { frequencyPenalty: 0.75 }), 1);
    assert.equal(drawn([3, 2], [0, 0], { frequencyPenalty: 0.75 }, 1), 0, "what was asked does not count");
    assert.equal(drawn([3, 2], [0, 0, 0], { presencePenalty: 0.75 }), 0, "however often");
    assert.equal(drawn([3, 2], [0], { presencePenalty: 1.5 }), 1);
    assert.equal(drawn([3, 2], [0], { presencePenalty: 1.5 }, 1), 0);
    assert.equal(drawn([3, 2], [1], { presencePenalty: -1.5 }), 1, "below 0 it draws towards what was said");
    assert.equal(drawn([3, 2], [0, 0], { repetitionPenalty: 1.2, frequencyPenalty: 0.3 }), 1, "together");
  });

  it("adds a bias to tokens, which can forbid one or force another", () => {
    const logits = logitsOf(50);
    const best = sampleToken(logits, [], greedy, 0);
    assert.notEqual(sampleToken(logits, [], { ...greedy, logitBias: { [best]: -100 } }, 0), best);
    for (let position = 0; position < 100; position++)
      assert.equal(sampleToken(logits, [], { ...settings, logitBias: { 7: 100, 99: 100 } }, position), 7);
  });

  it("never draws what has no probability, and knows a vocabulary of one", () => {
    const logits = Float32Array.of(-1e9, 0, -1e9);
    for (let position = 0; position < 100; position++) assert.equal(sampleToken(logits, [], settings, position), 1);
    assert.equal(sampleToken(Float32Array.of(0.5), [], { ...settings, topP: 0.5 }, 3), 0);
  });

  it("refuses settings that mean nothing", () => {
    checkSampling(settings);
    for (const [change, message] of [
      [{ temperature: -1 }, /temperature is -1/],
      [{ temperature: Number.NaN }, /temperature/],
      [{ topK: 1.5 }, /top_k/],
      [{ topP: 1.1 }, /top_p/],
      [{ repetitionPenalty: 0 }, /repetition_penalty/],
      [{ frequencyPenalty: 2.5 }, /frequency_penalty is 2.5/],
      [{ presencePenalty: Number.NaN }, /presence_penalty/],
      [{ logitBias: { 5: 101 } }, /logit_bias of token 5 is 101/],
      [{ logitBias: Object.fromEntries(Array.from({ length: 1_025 }, (_, i) => [i, 1])) }, /logit_bias has 1025/],
      [{ seed: 0.5 }, /seed/],
    ] as const)
      assert.throws(() => checkSampling({ ...settings, ...change }), message);
  });
});
