// Steps against oracles that are too simple to be wrong, and a pipeline that is killed again and again.

import assert from "node:assert/strict";
import { appendFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import { loadTokenizer, tokenizerJson } from "../data/bpe/json.ts";
import { trainBpe } from "../data/bpe/train.ts";
import { importInline } from "../data/imports/import-rows.ts";
import { countOf, type Output } from "./records.ts";
import { hashOfOutput } from "./run.ts";
import { saveOutput } from "./save.ts";
import { Killed, PipelineWorld } from "./world.testing.ts";

let world: PipelineWorld;
beforeEach(() => {
  world = new PipelineWorld();
});
afterEach(() => world.remove());

const jsonl = (rows: readonly unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const numbered = (count: number) => Array.from({ length: count }, (_, i) => ({ text: `row ${i}`, n: i }));

async function outputOf(steps: Record<string, unknown>, step: string): Promise<Output> {
  const made = await world.run({ steps, write: { "out.jsonl": step } });
  return made.get(step)?.output as Output;
}

async function vocabulary(name: string, text: string): Promise<void> {
  const learnt = await trainBpe([text], { vocabularySize: 300, specials: ["<|endoftext|>"] });
  world.vocabularies.set(name, tokenizerJson(learnt));
}

describe("sources", () => {
  test("JSON lines, CSV and text become rows, packed or not, over several files by a pattern", async () => {
    world.write("a1.jsonl", jsonl([{ text: "one", lang: "en" }]));
    world.write("a2.jsonl.gz", gzipSync(jsonl([{ text: "two" }, { text: "three" }])));
    world.write("t.csv", "name,score\nx,1.5\ny,2\n");
    world.write("lines.txt", "first\n\nsecond\n");
    const rows = async (step: unknown) => world.rows(await outputOf({ step }, "step"));
    assert.deepEqual(await rows({ files: ["a*.jsonl", "a*.jsonl.gz"] }), [
      { text: "one", lang: "en" },
      { text: "two" },
      { text: "three" },
    ]);
    assert.deepEqual(await rows({ files: "t.csv" }), [
      { name: "x", score: 1.5 },
      { name: "y", score: 2 },
    ]);
    assert.deepEqual(await rows({ files: { paths: "lines.txt", documents: "lines" } }), [
      { text: "first" },
      { text: "second" },
    ]);
    assert.deepEqual(await rows({ files: { paths: "lines.txt" } }), [{ text: "first\n\nsecond\n" }]);
  });

  test("what only the importers read becomes rows too, and a dataset of the network does", async () => {
    world.write("iris.csv", "a,b,species\n1,2,x\n3,4,y\n");
    const labelled = await outputOf({ step: { files: { paths: "iris.csv", labels: "species" } } }, "step");
    assert.deepEqual(await world.rows(labelled), [
      { inputs: [1, 2], labels: "x" },
      { inputs: [3, 4], labels: "y" },
    ]);
    const samples = { inputs: [[[1, 2]], [[3, 4]]], labels: [0, 1] };
    world.datasets.set("d", await importInline(JSON.stringify(samples), { blobs: world.blobs }));
    const made = await outputOf({ step: { dataset: "d" } }, "step");
    assert.deepEqual(await world.rows(made), [
      { inputs: [[1, 2]], labels: 0 },
      { inputs: [[3, 4]], labels: 1 },
    ]);
  });
});

describe("steps", () => {
  test("a filter keeps the rows for which its expression is true", async () => {
    world.write("a.jsonl", jsonl(numbered(100)));
    const steps = { a: { files: "a.jsonl" }, kept: { from: "a", filter: 'n >= 10 && n < 20 && text.endsWith("5")' } };
    assert.deepEqual(await world.rows(await outputOf(steps, "kept")), [{ text: "row 15", n: 15 }]);
  });

  test("decoding takes tags, scripts and names of characters out of HTML", async () => {
    const text =
      "<html><head><title>x</title></head><p class='a>b'>One &amp; two</p><script>if (a < b) {}</script><p>3 < 4</p>";
    world.write("a.jsonl", jsonl([{ text }]));
    const steps = { a: { files: "a.jsonl" }, plain: { from: "a", decode: "html" } };
    assert.deepEqual(await world.rows(await outputOf(steps, "plain")), [{ text: "One & two\n\n3 < 4" }]);
  });

  test("exact copies are left out, the first one stays, whatever else a row says", async () => {
    const rows = [{ text: "a", n: 1 }, { text: "b", n: 2 }, { text: "a", n: 3 }, { n: 4 }, { n: 4 }];
    world.write("a.jsonl", jsonl(rows));
    const steps = { a: { files: "a.jsonl" }, once: { from: "a", deduplicate: "exact" } };
    assert.deepEqual(await world.rows(await outputOf(steps, "once")), [rows[0], rows[1], rows[3]]);
  });

  test("texts of which a few words were changed are left out, others stay", async () => {
    const word = (seed: number) => `w${(seed * 7919) % 4999}`;
    const texts = Array.from({ length: 60 }, (_, i) => Array.from({ length: 150 }, (_, k) => word(i * 1000 + k * 13)));
    const changed = texts.slice(0, 20).map((words, i) => words.map((one, k) => (k === i * 5 ? "changed" : one)));
    world.write("a.jsonl", jsonl([...texts, ...changed].map((words) => ({ text: words.join(" ") }))));
    const steps = { a: { files: "a.jsonl" }, once: { from: "a", deduplicate: { by: "minhash", similarity: 0.7 } } };
    assert.deepEqual(
      await world.rows(await outputOf(steps, "once")),
      texts.map((words) => ({ text: words.join(" ") })),
    );
  });

  test("shuffling is a permutation that the seed decides", async () => {
    const rows = numbered(500);
    world.write("a.jsonl", jsonl(rows));
    const drawn = async (seed: number) =>
      world.rows(await outputOf({ a: { files: "a.jsonl" }, s: { from: "a", shuffle: { seed } } }, "s"));
    const [first, again, other] = [await drawn(1), await drawn(1), await drawn(2)];
    assert.deepEqual(first, again);
    assert.notDeepEqual(first, other);
    assert.notDeepEqual(first, rows);
    assert.deepEqual(
      first.toSorted((a, b) => Number(a["n"]) - Number(b["n"])),
      rows,
    );
  });

  test("mixing keeps each input's order and comes near its weight", async () => {
    world.write("a.jsonl", jsonl(numbered(3000).map((row) => ({ ...row, of: "a" }))));
    world.write("b.jsonl", jsonl(numbered(3000).map((row) => ({ ...row, of: "b" }))));
    const steps = (more: object) => ({
      a: { files: "a.jsonl" },
      b: { files: "b.jsonl" },
      m: { mix: { weights: { a: 3, b: 1 }, seed: 5, ...more } },
    });
    const stopped = await world.rows(await outputOf(steps({}), "m"));
    const [ofA, ofB] = ["a", "b"].map((of) => stopped.filter((row) => row["of"] === of)) as [
      typeof stopped,
      typeof stopped,
    ];
    assert.deepEqual(
      ofA.map((row) => row["n"]),
      ofA.map((_, i) => i),
    );
    assert.deepEqual(
      ofB.map((row) => row["n"]),
      ofB.map((_, i) => i),
    );
    assert.equal(ofA.length, 3000, "it stops when the first one ends");
    assert.ok(Math.abs(ofA.length / ofB.length - 3) < 0.3);
    const all = await world.rows(await outputOf(steps({ "when-one-ends": "go-on" }), "m"));
    assert.equal(all.length, 6000);
    const repeated = await world.rows(await outputOf(steps({ "when-one-ends": "repeat" }), "m"));
    assert.equal(new Set(repeated.filter((row) => row["of"] === "b").map((row) => row["n"])).size, 3000);
    assert.ok(repeated.filter((row) => row["of"] === "a").length > 6000);
    assert.equal((await world.rows(await outputOf(steps({ records: 10 }), "m"))).length, 10);
  });

  test("splitting by content puts equal texts on one side, and order cuts where it is told", async () => {
    const rows = [...numbered(300), ...numbered(300)];
    world.write("a.jsonl", jsonl(rows));
    const split = (by: string) =>
      outputOf({ a: { files: "a.jsonl" }, s: { from: "a", split: { parts: { train: 0.8, test: 0.2 }, by } } }, "s");
    const byContent = await split("content");
    const sides = await Promise.all(byContent.parts.map((part) => world.rows({ ...byContent, parts: [part] })));
    const [train, test] = sides.map((side) => new Set(side.map((row) => row["text"]))) as [Set<unknown>, Set<unknown>];
    assert.equal(train.intersection(test).size, 0);
    assert.ok(test.size > 30 && test.size < 90);
    assert.deepEqual(
      (await split("order")).parts.map((part) => countOf({ ...byContent, parts: [part] })),
      [480, 120],
    );
  });

  test("texts become tokens that spell them, packed into sequences of one length", async () => {
    const rows = Array.from({ length: 40 }, (_, i) => ({
      text: `the whale number ${i} swims in a sea of words`.slice(0, 10 + i),
    }));
    await vocabulary("small", rows.map(({ text }) => text).join("\n"));
    world.write("a.jsonl", jsonl(rows));
    const tokenizer = loadTokenizer(world.vocabularies.get("small") as string);
    const end = tokenizer.idOf("<|endoftext|>") as number;
    const expected = rows.map(({ text }) => [...tokenizer.encode(text, { parseSpecial: false }), end]);
    const steps = {
      a: { files: "a.jsonl" },
      t: { from: "a", tokenise: "small" },
      cut: { from: "t", pack: 32 },
      whole: { from: "t", pack: { context: 32, whole: true } },
    };
    assert.deepEqual(await world.tokens(await outputOf(steps, "t")), expected);
    const stream = expected.flat();
    const cut = await world.tokens(await outputOf(steps, "cut"));
    assert.deepEqual(cut.flat(), stream.slice(0, stream.length - (stream.length % 32)));
    const whole = await world.tokens(await outputOf(steps, "whole"));
    assert.ok(whole.every((run) => run.length === 32));
    const texts = whole
      .flatMap((run) => tokenizer.decode(run, { skipSpecial: false }).split("<|endoftext|>"))
      .filter((text) => text !== "");
    assert.deepEqual(texts.sort(), rows.map(({ text }) => text).sort(), "no text is cut");
  });

  test("a model is asked once for each row, with a seed that the row decides", async () => {
    world.models = { look: async () => ({ identity: "m", replicas: 2, context: 16 }) };
    world.write("a.jsonl", jsonl(numbered(30)));
    const map = { model: "gpt", prompt: "say {text}", into: "said", temperature: 0.5 };
    const steps = {
      a: { files: "a.jsonl" },
      m: { from: "a", map },
      s: { from: "a", shuffle: { seed: 3 } },
      n: { from: "s", map },
    };
    const said = await world.rows(await outputOf(steps, "m"));
    assert.deepEqual(
      said,
      numbered(30).map((row) => ({ ...row, said: `SAY ROW ${row.n}` })),
    );
    assert.equal(world.asked.length, 30);
    await outputOf(steps, "n");
    const seeds = (from: number) =>
      new Map(world.asked.slice(from, from + 30).map(({ prompt, seed }) => [prompt, seed]));
    assert.deepEqual(new Map([...seeds(30)].sort()), new Map([...seeds(0)].sort()), "wherever it stands");
    assert.equal(new Set(seeds(0).values()).size, 30);
  });

  test("a model gives each row's text its vector", async () => {
    world.models = { look: async () => ({ identity: "m", replicas: 2, context: 16 }) };
    world.write("a.jsonl", jsonl(numbered(12)));
    const steps = { a: { files: "a.jsonl" }, m: { from: "a", map: { model: "gpt", give: "embedding" } } };
    assert.deepEqual(
      await world.rows(await outputOf(steps, "m")),
      numbered(12).map((row) => ({ ...row, embedding: [row.text.length, 0.5] })),
    );
  });
});

const pipeline = {
  steps: {
    pages: { files: "pages.jsonl" },
    notes: { files: { paths: "notes.txt", documents: "lines" } },
    long: { from: "pages", filter: "size(text) > 12" },
    once: { from: "long", deduplicate: { by: "minhash" } },
    both: { mix: { weights: { once: 2, notes: 1 }, seed: 1, "when-one-ends": "go-on" } },
    drawn: { from: "both", shuffle: { seed: 2 } },
    parts: { from: "drawn", split: { parts: { train: 0.9, validation: 0.1 } } },
    tokens: { from: "parts", tokenise: "small" },
    packed: { from: "tokens", pack: { context: 16, whole: true } },
  },
  save: { corpus: "packed" },
};

async function writeSources(): Promise<void> {
  const text = (i: number) => `page ${i % 150} tells of ${(i % 150) ** 2} things and ${"more ".repeat((i % 150) % 7)}`;
  world.write("pages.jsonl", jsonl(Array.from({ length: 400 }, (_, i) => ({ text: text(i), i }))));
  world.write("notes.txt", Array.from({ length: 100 }, (_, i) => `note ${i}\n`).join(""));
  await vocabulary("small", Array.from({ length: 200 }, (_, i) => text(i)).join("\n"));
}

async function savedHash(output: Output): Promise<string> {
  const options = { workshop: await world.workshop(), blobs: world.blobs, target: "here", onProgress: () => {} };
  return JSON.stringify(await saveOutput(output, "packed", options));
}

describe("a pipeline", () => {
  test("killed before each of its writes gives what it gives undisturbed", async () => {
    await writeSources();
    const undisturbed = await savedHash((await world.run(pipeline)).get("packed")?.output as Output);
    const first = world;
    world = new PipelineWorld();
    await writeSources();
    let kills = 0;
    while (kills < 500) {
      try {
        const made = await world.run(pipeline, 4 + (kills % 5));
        assert.equal(await savedHash(made.get("packed")?.output as Output), undisturbed);
        break;
      } catch (thrown) {
        if (!(thrown instanceof Killed)) throw thrown;
        kills++;
        // Whoever is killed while it writes a line leaves half of it.
        const open = join(world.folder, "work", "open");
        for (const key of readdirSync(open)) appendFileSync(join(open, key, "log"), '["shards",0,[{"ha');
      }
    }
    assert.ok(kills > 20, `it was killed ${kills} times`);
    first.remove();
  });

  test("runs again only what a change concerns", async () => {
    await writeSources();
    const known = (made: Map<string, { known: boolean }>) =>
      [...made].filter(([, step]) => step.known).map(([name]) => name);
    assert.deepEqual(known(await world.run(pipeline)), []);
    assert.equal(known(await world.run(pipeline)).length, 9);
    const { parts } = pipeline.steps;
    const changed = {
      ...pipeline,
      steps: { ...pipeline.steps, parts: { ...parts, split: { ...parts.split, seed: 1 } } },
    };
    assert.deepEqual(known(await world.run(changed)), ["pages", "notes", "long", "once", "both", "drawn"]);
    // The same content with another time: the file is read again, and nothing behind it.
    const before = (await world.run(pipeline)).get("packed")?.output as Output;
    await new Promise((resolve) => setTimeout(resolve, 5));
    await writeSources();
    const touched = await world.run(pipeline);
    assert.deepEqual(known(touched).length, 7);
    assert.equal(hashOfOutput(touched.get("packed")?.output as Output), hashOfOutput(before));
  });

  test("makes a step again whose shards are gone or damaged", async () => {
    await writeSources();
    const before = (await world.run(pipeline)).get("packed")?.output as Output;
    const blobs = join(world.folder, "work", "blobs");
    for (const name of readdirSync(blobs).slice(0, 5)) world.write(join("work", "blobs", name), "damaged");
    const after = (await world.run(pipeline)).get("packed")?.output as Output;
    assert.deepEqual(after, before);
  });

  test("sweeping forgets what was not used for longest, and what is left still runs", async () => {
    await writeSources();
    const before = (await world.run(pipeline)).get("packed")?.output as Output;
    const workshop = await world.workshop();
    await workshop.sweep(30_000, (result) => (result as Output).parts.flatMap((part) => part.shards));
    const left = readdirSync(join(world.folder, "work", "steps")).length;
    assert.ok(left < 9, `${left} steps are left`);
    assert.deepEqual((await world.run(pipeline)).get("packed")?.output, before);
  });
});
