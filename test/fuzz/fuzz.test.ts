// No bytes that a stranger sends break a parser or a handler: each is accepted or refused by a sentence of ours, and none
// holds the thread. `npm run fuzz` is the long form.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError } from "../../src/core/errors.ts";
import { emptyTally, judge } from "./findings.ts";
import { fuzz } from "./run.ts";

test("spoiled files and drawn messages are accepted or refused, never worse", async (context) => {
  const { inputs, accepted, refused, slowestMs, slowest, findings } = await fuzz({ seed: 1, messages: 4_000 });
  context.diagnostic(
    `${inputs} inputs, ${accepted} accepted, ${refused} refused, slowest ${slowestMs} ms (${slowest})`,
  );
  assert.deepEqual(findings, []);
  // Rubbish alone would test nothing but the first check.
  assert.ok(accepted > inputs / 10 && refused > inputs / 10);
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
