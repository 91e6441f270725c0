// What is wrong with a pipeline is said in one sentence, before anything runs where that is possible.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { openAside } from "../system/threads/aside.ts";
import { readPipeline } from "./definition.ts";
import { filtering } from "./operators/filter.ts";
import { RecordWriter, recordOfRow } from "./records.ts";
import { PipelineWorld } from "./world.testing.ts";

let world: PipelineWorld;
beforeEach(() => {
  world = new PipelineWorld();
  world.write("a.jsonl", '{"text": "one"}\n{"text": "two"}\n');
});
afterEach(() => world.remove());

const a = { files: "a.jsonl" };
const save = { d: "x" };

/** Refused when the file is read, with nothing but the file at hand. */
const byReading: readonly [unknown, RegExp][] = [
  [{ steps: {}, save }, /has no steps/],
  [{ steps: { x: a }, save, sav: {} }, /has no field "sav"/],
  [{ steps: { x: a } }, /saves nothing/],
  [{ steps: { x: { fliter: "true" } }, save }, /no step of the kind "fliter": choose from files, dataset/],
  [{ steps: { x: { from: "y", filter: "true" } }, save }, /reads "y", and there is no such step/],
  [
    { steps: { x: { from: "y", filter: "true" }, y: { from: "x", filter: "true" } }, save },
    /in a circle: x reads y reads x/,
  ],
  [{ steps: { a, x: { from: "a", filter: "size(text) >" } }, save }, /filter `size\(text\) >` cannot be read/],
  [{ steps: { a, x: { from: "a", filter: "nothing(text)" } }, save }, /is wrong: .*nothing/],
  [{ steps: { a, x: { from: "a", filter: "size(text)" } }, save }, /gives int, expected true or false/],
  [{ steps: { a, x: { mix: { weights: { a: 1, b: -2 } } } }, save }, /weight of b is -2, expected a number above 0/],
  [
    { steps: { a, x: { from: "a", split: { parts: { train: 0.9, test: 0.2 } } } }, save },
    /shares make 1.1, expected 1/,
  ],
  [{ steps: { a, x: { from: "a", pack: { context: 0 } } }, save }, /`context` is 0, expected a whole number/],
  [{ steps: { a, x: { from: "a", map: { model: "m", labels: ["a"] } } }, save }, /`labels` is for label, not for text/],
  [{ steps: { x: a }, save: { "../d": "x" } }, /the dataset's name/],
];

test("a file that cannot mean anything is refused as it is read", () => {
  for (const [given, expected] of byReading) assert.throws(() => readPipeline(given, "p.yaml"), expected);
});

/** Refused when the world is looked at. */
const byLooking: readonly [unknown, RegExp][] = [
  [{ steps: { x: { files: "gone.jsonl" } }, save }, /step x: there is no file .*gone.jsonl/],
  [{ steps: { x: { files: "gone*.jsonl" } }, save }, /there is no file that gone\*.jsonl means/],
  [{ steps: { x: { files: "-" } }, save }, /standard input cannot be read again/],
  [{ steps: { x: { dataset: "gone" } }, save }, /there is no dataset gone/],
  [{ steps: { a, x: { from: "a", tokenise: "gone" } }, save }, /there is no vocabulary gone/],
  [{ steps: { a, x: { from: "a", map: { model: "gone" } } }, save }, /the model gone is not served/],
  [{ steps: { a, x: { from: "a", pack: 8 } }, save }, /works on tokens, and is given rows/],
];

test("what is missing outside is told before the first step runs", async () => {
  for (const [given, expected] of byLooking) await assert.rejects(world.run(given), expected);
  assert.ok(!existsSync(join(world.folder, "work")), "nothing was begun");
});

test("a row that an expression cannot be asked of is told by its number", async () => {
  const steps = { a, x: { from: "a", filter: "score > 1" } };
  await assert.rejects(world.run({ steps, save }), /the filter fails on row 1: Unknown variable: score/);
});

test("expressions reach the row, and nothing of the program", () => {
  const rows = new RecordWriter();
  rows.add(recordOfRow({ text: "a" }));
  const { content } = rows.take();
  for (const reached of ["row.constructor", "row.__proto__", "text.constructor", 'row["__proto__"]', "constructor"]) {
    const input = { expression: `${reached} == 1`, where: "step x", content, first: 0 };
    assert.throws(() => [...filtering.run(input)], /No such key|Unknown variable/, reached);
  }
});

test("an expression that runs for ever is ended", async () => {
  const aside = openAside();
  try {
    const rows = new RecordWriter();
    rows.add(recordOfRow({ text: `${"a".repeat(60)}!` }));
    const input = { expression: 'text.matches("^(a+)+$")', where: "step x", content: rows.take().content, first: 0 };
    await assert.rejects(aside.run({ ...filtering, deadlineMs: 300 }, input), /took longer than 0.3 s/);
  } finally {
    await aside.close();
  }
});
