// Folders of images and Parquet files become datasets: the same values as their own libraries read, classes from folders and texts, and a
// sentence for everything that cannot be.

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { testBlobs } from "../blobs.testing.ts";
import { assertRefusal, damagedCopies } from "../damage.testing.ts";
import { readDocuments, textOfDocument } from "../documents.ts";
import { type Manifest, manifestHash, type TensorsManifest, type TextManifest } from "../manifest.ts";
import { showSamples } from "../show.ts";
import { importDataset } from "./import.ts";
import type { ImportCheckpoint, ImportRequest } from "./import-run.ts";
import type { ObjectGet, SourceAccess } from "./source.ts";

const fixtures = join(import.meta.dirname, "..", "fixtures", "files");
const folder = mkdtempSync(join(tmpdir(), "import-files-"));
after(() => rmSync(folder, { recursive: true, force: true }));

async function imported(request: ImportRequest, access: SourceAccess = {}) {
  const blobs = testBlobs();
  return { blobs, manifest: await importDataset(request, access, { blobs }) };
}

async function values(manifest: Manifest, blobs: ReturnType<typeof testBlobs>, name: string): Promise<number[][]> {
  const shown = await showSamples(manifest, { start: 0, count: 100 }, blobs.get);
  return shown.map((sample) => [...(sample.fields[name]!.data as Float32Array)]);
}

const fieldsOf = (manifest: Manifest) => (manifest as TensorsManifest).fields;

describe("a folder of images", () => {
  const pets = join(folder, "pets");
  for (const [kind, name] of [
    ["cat", "colour.png"],
    ["cat", "whole.jpg"],
    ["dog", "optimised.jpg"],
  ] as const) {
    mkdirSync(join(pets, kind), { recursive: true });
    copyFileSync(join(fixtures, name), join(pets, kind, name));
  }
  writeFileSync(join(pets, "readme.txt"), "not an image");

  it("becomes samples of bytes with the folders as classes", async () => {
    const { manifest, blobs } = await imported({ source: pets });
    assert.deepEqual(
      fieldsOf(manifest).map(({ name, dtype, shape, classes }) => ({ name, dtype, shape, classes })),
      [
        { name: "inputs", dtype: "uint8", shape: [3, 11, 13], classes: undefined },
        { name: "labels", dtype: "int32", shape: [], classes: ["cat", "dog"] },
      ],
    );
    assert.deepEqual(await values(manifest, blobs, "labels"), [[0], [0], [1]]);
    assert.ok(Math.abs((fieldsOf(manifest)[0]?.scale ?? 0) - 1 / 255) < 1e-9);
  });

  it("is scaled to a shape that is asked for, in colour or grey, and may have no labels", async () => {
    const { manifest } = await imported({ source: pets, shape: [1, 6, 5], labels: "none" });
    assert.deepEqual(
      fieldsOf(manifest).map(({ shape }) => shape),
      [[1, 6, 5]],
    );
  });

  it("goes on where an interrupted import was, to the same dataset", async () => {
    const blobs = testBlobs();
    const checkpoints: ImportCheckpoint[] = [];
    const request = { source: pets };
    const onCheckpoint = (checkpoint: ImportCheckpoint) => void checkpoints.push(checkpoint);
    const whole = await importDataset(request, {}, { blobs, shardBytes: 1100, onCheckpoint });
    assert.ok(checkpoints.length > 1);
    for (const resume of checkpoints.slice(0, 2)) {
      const again = await importDataset(request, {}, { blobs, shardBytes: 1100, resume });
      assert.equal(manifestHash(again), manifestHash(whole));
    }
  });

  it("of several sizes, of none, or with images beside its classes is refused by name", async () => {
    const mixed = join(folder, "mixed");
    mkdirSync(join(mixed, "a"), { recursive: true });
    copyFileSync(join(fixtures, "colour.png"), join(mixed, "a", "1.png"));
    copyFileSync(join(fixtures, "half.jpg"), join(mixed, "a", "2.jpg"));
    await assert.rejects(
      imported({ source: mixed }),
      /2.jpg has 37 x 29 pixels, the first image 13 x 11: say --shape 3,11,13/,
    );
    copyFileSync(join(fixtures, "colour.png"), join(mixed, "lose.png"));
    await assert.rejects(
      imported({ source: mixed, shape: [3, 8, 8] }),
      /lose.png lies beside the folders of the classes/,
    );
    const empty = join(folder, "empty");
    mkdirSync(empty);
    await assert.rejects(imported({ source: empty }), /has no files that end in png, jpg, jpeg/);
    await assert.rejects(imported({ source: pets, shape: [7, 8, 8] }), /images have a shape such as 3,64,64/);
  });

  it("is read only where reading is allowed, links included", async () => {
    await assert.rejects(
      imported({ source: pets }, { folders: [join(folder, "empty")] }),
      /outside the folders that may be read/,
    );
    const linked = join(folder, "linked");
    mkdirSync(linked);
    symlinkSync(join(fixtures, "colour.png"), join(linked, "out.png"));
    await assert.rejects(imported({ source: linked }, { folders: [folder] }), /outside the folders that may be read/);
  });
});

describe("a Parquet file", () => {
  const tables = JSON.parse(readFileSync(join(fixtures, "tables.json"), "utf8")) as {
    rows: Record<string, number | boolean | string>[];
    texts: string[];
  };
  const species = ["setosa", "versicolor", "virginica"];

  for (const name of ["plain", "snappy", "gzip", "zstd", "pages", "required"])
    it(`written as ${name} has the values that Arrow wrote`, async () => {
      const { manifest, blobs } = await imported({ source: join(fixtures, `${name}.parquet`), labels: "species" });
      const inputs = tables.rows.map(({ length, width, count, small, wild }) =>
        [length, width, count, small, wild].map((value) => Math.fround(Number(value))),
      );
      assert.deepEqual(await values(manifest, blobs, "inputs"), inputs);
      assert.deepEqual(fieldsOf(manifest)[1]?.classes, species);
      const labels = tables.rows.map((row) => [species.indexOf(String(row["species"]))]);
      assert.deepEqual(await values(manifest, blobs, "labels"), labels);
    });

  it("gives the columns that are asked for, and goes on in the middle", async () => {
    const request = { source: join(fixtures, "gzip.parquet"), columns: ["small", "length"], labels: "count" };
    const { manifest, blobs } = await imported(request);
    const expected = tables.rows.map(({ small, length }) => [Number(small), Math.fround(Number(length))]);
    assert.deepEqual(await values(manifest, blobs, "inputs"), expected);
    const checkpoints: ImportCheckpoint[] = [];
    const onCheckpoint = (checkpoint: ImportCheckpoint) => void checkpoints.push(checkpoint);
    const whole = await importDataset(request, {}, { blobs, shardBytes: 1024 / 4, onCheckpoint });
    const resume = checkpoints[1]!;
    const again = await importDataset(request, {}, { blobs, shardBytes: 1024 / 4, resume });
    assert.equal(manifestHash(again), manifestHash(whole));
  });

  it("is read by one stream for each pass, however many groups and columns it has", async () => {
    const file = readFileSync(join(fixtures, "gzip.parquet"));
    const opened: number[] = [];
    const objectGet: ObjectGet = async (_bucket, _key, start) => {
      opened.push(start);
      const pieces = async function* () {
        for (let at = start; at < file.length; at += 100) yield file.subarray(at, at + 100);
      };
      return { bytes: file.length, tag: "1", body: pieces() };
    };
    const source = "s3://bucket/gzip.parquet";
    const { manifest } = await imported({ source, labels: "species" }, { objectGet });
    const local = await imported({ source: join(fixtures, "gzip.parquet"), labels: "species" });
    assert.equal(manifestHash(manifest), manifestHash(local.manifest));
    // Its size, its tail, its description; then the first row, the classes and the samples. It has 18 chunks.
    assert.equal(opened.length, 6, opened.join(" "));
  });

  it("with a column of texts becomes documents", async () => {
    const { manifest, blobs } = await imported({ source: join(fixtures, "texts.parquet") });
    const found: string[] = [];
    for await (const document of readDocuments(manifest as TextManifest, blobs.get))
      found.push(textOfDocument(document));
    assert.deepEqual(found, tables.texts);
  });

  it("is refused by the name of what cannot be read", async () => {
    const refused = (name: string, pattern: RegExp, request: Partial<ImportRequest> = { labels: "species" }) =>
      assert.rejects(imported({ source: join(fixtures, `${name}.parquet`), ...request }), pattern);
    await refused("nested", /column "parts" of .* has columns of its own, which is not supported: choose others/);
    await refused("nested", /column "day" of .* holds times/, { labels: "none", columns: ["day"] });
    await refused("holes", /row 5 of .* has no value in column "width"/);
    await refused("brotli", /packed by brotli: none, snappy, gzip and zstd/);
    await refused("delta", /column "count" of .* encoded as delta: plain, dictionary and run lengths/);
    await refused("plain", /column "species" of .* holds texts, inputs are numbers/, { labels: "count" });
    await refused("plain", /has no column "nope": it has length, width/, { columns: ["nope"], labels: "count" });
    const stdin = { stdin: (async function* () {})() };
    await assert.rejects(imported({ source: "-", format: "parquet" }, stdin), /cannot be read from its end/);
  });

  it("that is damaged is refused or read; it never breaks the process", async () => {
    for (const [seed, name] of ["plain", "snappy", "gzip", "zstd", "pages", "holes"].entries())
      for (const bytes of damagedCopies(readFileSync(join(fixtures, `${name}.parquet`)), 24, seed)) {
        const source = join(folder, "damaged.parquet");
        writeFileSync(source, bytes);
        await imported({ source, labels: "species" }).catch((thrown) => assertRefusal(thrown, name));
      }
  });
});
