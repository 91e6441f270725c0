// No bytes that a stranger sends break a parser or a handler: each is accepted or refused by a sentence of ours, and none
// holds the thread. `npm run fuzz` is the long form.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SeededChance } from "../../simulation/world/chance.ts";
import { DcnrError } from "../../src/core/errors.ts";
import { emptyTally, judge } from "./findings.ts";
import { spoiled } from "./mutate.ts";
import { fuzz, openAllParsers } from "./run.ts";

test("spoiled files and drawn messages are accepted or refused, never worse", async (context) => {
  const { inputs, accepted, refused, slowestMs, slowest, findings } = await fuzz({ seed: 1, messages: 4_000 });
  context.diagnostic(
    `${inputs} inputs, ${accepted} accepted, ${refused} refused, slowest ${slowestMs} ms (${slowest})`,
  );
  assert.deepEqual(findings, []);
  // Rubbish alone would test nothing but the first check.
  assert.ok(accepted > inputs / 10 && refused > inputs / 10);
});

test("every parser takes a good sample of its own, also after many were spoiled", async () => {
  const parsers = openAllParsers();
  try {
    for (const { name, samples, parse } of parsers) {
      const chance = new SeededChance(1, name);
      for (let i = 0; i < 50; i++) spoiled(chance.pick(samples), chance, chance.pick(samples));
      const refusals: unknown[] = [];
      const some = samples.slice(0, 3);
      // One after the other: parsers of files have one file each.
      for (const sample of some) await Promise.try(parse, sample).catch((refusal: unknown) => refusals.push(refusal));
      assert.ok(refusals.length < some.length, `${name}: ${refusals.map(String).join("; ")}`);
    }
  } finally {
    for (const { close } of parsers) close?.();
  }
});

test("what breaks is found: an error of no kind of ours, and a thread that is held", async () => {
  const tally = emptyTally();
  const at = { target: "a parser", seed: 1, index: 1 };
  await judge(tally, at, () => {
    throw new DcnrError("invalid_argument", "a sentence");
  });
  assert.deepEqual(tally.findings, []);
  await judge(tally, at, () => (undefined as unknown as { length: number }).length);
  await judge(tally, at, () => {
    for (const start = process.threadCpuUsage().user; process.threadCpuUsage().user < start + 60_000; );
  });
  assert.equal(tally.findings.length, 2);
});
