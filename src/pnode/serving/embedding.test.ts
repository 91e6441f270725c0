// Texts' vectors from the conductor, beside answers and losses.

import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../../core/hash.ts";
import {
  answerTo,
  chanceOf,
  classes,
  context,
  isOver,
  logitsOf,
  read,
  requestOf,
  Stages,
  stagesCount,
} from "./conductor.testing.ts";

/** The vector of a prompt, without any conductor: what the last stage makes of all its tokens, or of the last. */
function vectorOf(prompt: readonly number[], pooling: "mean" | "last"): Float32Array {
  const stages = Array.from({ length: stagesCount }, () => "undefined");
  const sums = new Array<number>(classes).fill(0);
  for (const [position, token] of prompt.entries()) {
    let value = String(token);
    for (const [stage, before] of stages.entries()) {
      value = sha256(`${before}|${value}`);
      stages[stage] = value;
    }
    if (pooling === "last" && position < prompt.length - 1) continue;
    for (const [i, state] of logitsOf(value).entries()) sums[i] = (sums[i] as number) + Math.fround(state);
  }
  const length = Math.sqrt(sums.reduce((sum, value) => sum + value * value, 0));
  return Float32Array.from(sums, (value) => value / length);
}

for (const pooling of ["mean", "last"] as const)
  test(`a text's vector (${pooling}) is the same whatever else runs, is lost or goes away`, async () => {
    let losses = 0;
    for (let seed = 1; seed <= 6; seed++) {
      const chance = chanceOf(seed + 3000);
      const stages = new Stages();
      const signal = new AbortController().signal;
      const readers = Array.from({ length: 6 }, (_, i) => read(stages.conductor, requestOf(i + 1, 30 + i, 20)));
      // One of the readers' prompts too: what is shared has no hidden states.
      const prompts = [1, 2, context - 1, context].map((length) => requestOf(seed, length, 1).prompt);
      prompts.push(requestOf(1, 30, 1).prompt);
      const found: (Float32Array | undefined)[] = prompts.map(() => undefined);
      for (const [i, prompt] of prompts.entries())
        void stages.conductor.embed({ prompt, pooling }, signal).then((vector) => {
          found[i] = vector;
        });
      const disturb = () => {
        if (chance() > 0.02) return;
        losses++;
        stages.stages[Math.floor(chance() * stagesCount)]?.forget();
      };
      await stages.drive(() => found.every(Boolean) && readers.every(isOver), chance, disturb);
      for (const [i, prompt] of prompts.entries())
        assert.deepEqual(found[i], vectorOf(prompt, pooling), `seed ${seed}, ${prompt.length} tokens`);
      for (const [i, { tokens }] of readers.entries())
        assert.deepEqual(tokens, answerTo(requestOf(i + 1, 30 + i, 20)), "answers beside it are what they are alone");
    }
    assert.ok(losses > 6, `${losses} losses`);
  });

test("texts that do not fit, are empty, or that nobody waits for get no vector", async () => {
  const { conductor } = new Stages();
  const signal = new AbortController().signal;
  const asked = (length: number) =>
    conductor.embed({ prompt: requestOf(1, length, 1).prompt, pooling: "mean" }, signal);
  await assert.rejects(asked(context + 1), /has 97 tokens, the model takes at most 96/);
  await assert.rejects(asked(0), /empty/);
  await assert.rejects(conductor.embed({ prompt: [1], pooling: "mean" }, AbortSignal.abort()), /nobody waits/);
});
