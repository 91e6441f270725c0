// The space of a study: what may be written, and that what is drawn keeps to it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DcnrError } from "../core/errors.ts";
import { gridOf, randomTrial } from "./search.ts";
import { numberAt, parseSpace, type Range, unitOf } from "./space.ts";
import { parseStudy } from "./study.ts";
import { tpeTrial } from "./tpe.ts";

const conditional = parseSpace({
  schedule: { choice: ["constant", "cosine"] },
  warmup: { integer: [1, 5], when: { schedule: "cosine" } },
  rate: { "log-uniform": [1e-4, 1] },
  width: { "log-integer": [8, 512] },
});

test("a setting that does not count is left out, and everything lies where it may, by every search", () => {
  const outcomes = Array.from({ length: 40 }, (_, trial) => {
    const settings = randomTrial(conditional, 7, trial);
    return {
      trial,
      settings,
      loss: trial % 9 === 0 ? Number.NaN : Math.abs(Math.log10(settings["rate"] as number) + 2),
    };
  });
  const drawn = outcomes.map(({ settings }) => settings);
  const modelled = Array.from({ length: 20 }, (_, trial) => tpeTrial(conditional, 7, 100 + trial, outcomes));
  for (const settings of [...drawn, ...modelled, ...gridOf(conditional)]) {
    assert.equal("warmup" in settings, settings["schedule"] === "cosine");
    const { warmup = 1, rate, width } = settings as Record<string, number>;
    assert.ok(Number.isInteger(warmup) && warmup >= 1 && warmup <= 5);
    assert.ok((rate as number) >= 1e-4 && (rate as number) <= 1);
    assert.ok(Number.isInteger(width) && (width as number) >= 8 && (width as number) <= 512);
  }
  assert.equal(gridOf(conditional).length, (1 + 5) * 5 * 5, "points that differ in nothing that counts are one");
  assert.deepEqual(randomTrial(conditional, 7, 3), drawn[3], "a trial is drawn alone");
});

test("whole numbers on a logarithmic scale are drawn as often as the stretch that rounds to them is long", () => {
  const [width] = parseSpace({ width: { "log-integer": [1, 3] } }) as [Range];
  const counts = [0, 0, 0, 0];
  for (let index = 0; index < 10_000; index++)
    counts[numberAt(width, (index + 0.5) / 10_000)] = (counts[numberAt(width, (index + 0.5) / 10_000)] as number) + 1;
  const share = (from: number, to: number) => Math.log(to / from) / Math.log(3.5 / 0.5);
  for (const value of [1, 2, 3])
    assert.ok(Math.abs((counts[value] as number) / 10_000 - share(value - 0.5, value + 0.5)) < 0.001);
  assert.ok(Math.abs(unitOf(width, 1) - share(0.5, 1)) < 1e-12);
});

test("values that cannot be told as text are refused with a sentence all the same", () => {
  const odd = { toString: 1 };
  const space = { rate: { uniform: [0, 1] } };
  for (const given of [
    { seed: odd },
    { search: odd },
    { space: { ...space, a: { choice: [1, 2], when: { rate: odd } } } },
  ])
    assert.throws(() => parseStudy({ steps: 9, space, ...given }), DcnrError);
});

test("what makes no sense in a space is refused with a sentence", () => {
  const wrong = (space: unknown, sentence: RegExp) => assert.throws(() => parseSpace(space), sentence);
  wrong([], /needs `space`/);
  wrong({ rate: 3 }, /space.rate: expected one of choice, uniform/);
  wrong({ rate: { uniform: [0, 1], choice: [1] } }, /just one of .* there is uniform and choice/);
  wrong({ rate: { gaussian: [0, 1] } }, /there is gaussian/);
  wrong({ rate: { uniform: [1, 0] } }, /1 is not below 0/);
  wrong({ rate: { uniform: [0, "x"] } }, /two numbers/);
  wrong({ rate: { "log-uniform": [0, 1] } }, /above 0/);
  wrong({ steps: { integer: [0.5, 3] } }, /whole numbers/);
  wrong({ batch: { choice: [] } }, /from 1 to/);
  wrong({ batch: { choice: [1, 1] } }, /stands twice/);
  wrong({ batch: { choice: [{}] } }, /between texts/);
  wrong(
    { a: { uniform: [0, 1], when: { b: 1 } }, b: { choice: [1] } },
    /`when` names b, which is not searched, or only further below/,
  );
  wrong({ b: { choice: [1] }, a: { uniform: [0, 1], when: { b: 2 } } }, /none of its choices/);
});
