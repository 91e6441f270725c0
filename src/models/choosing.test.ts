import assert from "node:assert/strict";
import { test } from "node:test";
import { randomKey, uniformAt } from "../core/numbers/random.ts";
import { Chooser, type Constraint, logprobsOf } from "./choosing.ts";
import { greedy, sampleToken } from "./sampling.ts";

const key = randomKey("choosing", 1);
const logits = Float32Array.from({ length: 70 }, (_, i) => uniformAt(key, i) * 8 - 4);
const place = { position: 4, prompt: [1, 2, 3, 4], produced: [], left: 5 };

/** Allows the tokens of a set, and follows what is accepted. */
function only(tokens: readonly number[], more: Partial<Constraint> = {}): Constraint & { readonly accepted: number[] } {
  const bits = new Uint32Array(3);
  for (const token of tokens) bits[token >> 5] = (bits[token >> 5] as number) | (1 << (token & 31));
  const accepted: number[] = [];
  return {
    allowed: () => bits,
    accept: (token) => void accepted.push(token),
    mayEnd: false,
    isOver: false,
    accepted,
    ...more,
  };
}

test("probabilities are those of a softmax, the likeliest first, whatever the settings choose", () => {
  const sum = logits.reduce((all, logit) => all + Math.exp(logit), 0);
  const expected = [...logits].map((logit, token) => ({ token, logprob: logit - Math.log(sum) }));
  const chosen = new Chooser({
    sampling: { ...greedy, temperature: 2, seed: 5 },
    topLogprobs: 20,
    endTokens: new Set(),
  });
  const { token, logprobs } = chosen.choose(logits, place);
  assert.equal(token, sampleToken(logits, [], { ...greedy, temperature: 2, seed: 5 }, 4, 4));
  assert.ok(logprobs);
  assert.ok(Math.abs(logprobs.logprob - (expected[token]?.logprob as number)) < 1e-12);
  const best = expected.toSorted((a, b) => b.logprob - a.logprob).slice(0, 20);
  assert.deepEqual(
    logprobs.top.map((one) => one.token),
    best.map((one) => one.token),
  );
  for (const [index, { logprob }] of logprobs.top.entries())
    assert.ok(Math.abs(logprob - (best[index]?.logprob as number)) < 1e-12);
  assert.deepEqual(
    logprobsOf(Float32Array.of(1, 2, 2, 1), 0, 3).top.map((one) => one.token),
    [1, 2, 0],
  );
  assert.deepEqual(logprobsOf(logits, 3, 0).top, []);
});

test("a constraint leaves only what it allows, at any temperature, and hears what is chosen or was chosen before", () => {
  const allowed = [3, 31, 32, 64];
  for (let seed = 0; seed < 200; seed++) {
    const constraint = only(allowed);
    const sampling = { ...greedy, temperature: 5, topP: 0.9, logitBias: { 7: 100 }, seed };
    const chooser = new Chooser({ sampling, constraint, endTokens: new Set([9]) }, [11, 12]);
    const { token, ends } = chooser.choose(logits, place);
    assert.ok(allowed.includes(token));
    assert.equal(ends, undefined);
    assert.deepEqual(constraint.accepted, [11, 12, token]);
  }
  const best = allowed.toSorted((a, b) => (logits[b] as number) - (logits[a] as number))[0];
  const chooser = new Chooser({ sampling: greedy, constraint: only(allowed), endTokens: new Set() });
  assert.equal(chooser.choose(logits, place).token, best);
});

test("an answer ends where its constraint says so, and nowhere else", () => {
  const end = new Set([9]);
  const wish = (constraint: Constraint) => ({
    sampling: { ...greedy, logitBias: { 9: 100 } },
    constraint,
    endTokens: end,
  });
  const ended = new Chooser(wish(only([3], { mayEnd: true }))).choose(logits, place);
  assert.deepEqual(ended, { token: 9, ends: "before" });
  assert.deepEqual(new Chooser(wish(only([3]))).choose(logits, place), { token: 3 });
  assert.deepEqual(new Chooser(wish(only([3], { isOver: true }))).choose(logits, place), { token: 3, ends: "after" });
  const constraint = only([3], { mayEnd: true });
  const full = new Chooser({ sampling: greedy, constraint, endTokens: new Set() }).choose(logits, {
    ...place,
    left: 0,
  });
  assert.deepEqual(full, { token: 3, ends: "after" }, "what may end has ended when there is no room");
  assert.throws(() => new Chooser(wish(only([]))).choose(logits, place), /no token that may come next/);
});
