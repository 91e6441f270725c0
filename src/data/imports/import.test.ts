import assert from "node:assert/strict";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { testBlobs } from "../blobs.testing.ts";
import { readDocuments, textOfDocument } from "../documents.ts";
import { type Manifest, manifestHash, manifestText, type TextManifest } from "../manifest.ts";
import { showSamples } from "../show.ts";
import { splitDataset } from "../splits.ts";
import { importDataset } from "./import.ts";
import { importInline } from "./import-rows.ts";
import type { ImportCheckpoint, ImportRequest } from "./import-run.ts";
import type { SourceAccess } from "./source.ts";

const folder = mkdtempSync(join(tmpdir(), "import-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const file = (name: string, content: string | Uint8Array) => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};

/** Gives the content in pieces of odd sizes, so that records lie across their edges. */
function stdinOf(content: string | Uint8Array, pieceBytes = 7): SourceAccess {
  const bytes = Buffer.from(content);
  return {
    stdin: (async function* () {
      for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
    })(),
  };
}

async function imported(request: Omit<ImportRequest, "source">, content: string | Uint8Array, pieceBytes = 7) {
  const blobs = testBlobs();
  const manifest = await importDataset({ source: "-", ...request }, stdinOf(content, pieceBytes), { blobs });
  return { blobs, manifest };
}

async function values(manifest: Manifest, blobs: ReturnType<typeof testBlobs>, name: string): Promise<number[][]> {
  const shown = await showSamples(manifest, { start: 0, count: 100 }, blobs.get);
  return shown.map((sample) => [...(sample.fields[name]!.data as Float32Array)]);
}

async function textsOf(manifest: Manifest, blobs: ReturnType<typeof testBlobs>): Promise<string[]> {
  const texts: string[] = [];
  for await (const document of readDocuments(manifest as TextManifest, blobs.get)) texts.push(textOfDocument(document));
  return texts;
}

describe("importing text", () => {
  it("gives back the text byte for byte, cut at line ends, whatever the pieces it came in", async () => {
    const text = Array.from({ length: 3000 }, (_, i) => `line ${i} — ünïcödé\n`).join("");
    const { manifest, blobs } = await imported({ format: "text" }, text);
    const pieces = await textsOf(manifest, blobs);
    assert.ok(pieces.length > 3);
    assert.equal(pieces.join(""), text);
    assert.ok(pieces.every((piece) => piece.endsWith("\n")));
    const atOnce = await importDataset({ source: file("same.txt", text) }, {}, { blobs });
    assert.equal(manifestHash(atOnce), manifestHash(manifest));
  });

  it("cuts a text without line ends between characters", async () => {
    const text = "é漢🐋".repeat(200_000);
    const { manifest, blobs } = await imported({ format: "text" }, text, 1021);
    const pieces = await textsOf(manifest, blobs);
    assert.equal(pieces.length, 2);
    assert.equal(pieces.join(""), text);
  });

  it("says where invalid UTF-8 is, and refuses nothing at all", async () => {
    const bytes = Buffer.concat([Buffer.from("fine ".repeat(3000)), Buffer.of(0xc3, 0x28)]);
    await assert.rejects(imported({ format: "text" }, bytes), /not valid UTF-8 at byte 1500[01]/);
    await assert.rejects(imported({ format: "text" }, ""), /standard input is empty/);
  });
});

describe("importing JSON lines", () => {
  it("takes documents from the text field and skips blank lines", async () => {
    const { manifest, blobs } = await imported(
      { format: "jsonl" },
      '{"text":"one"}\n\n{"text":"two\\nlines","id":2}\r\n{"text":""}',
    );
    assert.deepEqual(await textsOf(manifest, blobs), ["one", "two\nlines", ""]);
    assert.equal((manifest as TextManifest).running, false);
  });

  it("takes inputs and labels, whole labels as int32", async () => {
    const { manifest, blobs } = await imported(
      { format: "jsonl" },
      '{"inputs":[[1,2.5],[3,4]],"labels":1}\n{"inputs":[[5,6],[7,8]],"labels":0}\n',
    );
    assert.deepEqual(await values(manifest, blobs, "inputs"), [
      [1, 2.5, 3, 4],
      [5, 6, 7, 8],
    ]);
    assert.deepEqual(await values(manifest, blobs, "labels"), [[1], [0]]);
    assert.ok(manifest.kind === "tensors");
    assert.deepEqual(
      manifest.fields.map(({ dtype, shape }) => [dtype, shape]),
      [
        ["float32", [2, 2]],
        ["int32", []],
      ],
    );
  });

  const wrong: [string, string, RegExp][] = [
    [
      "a ragged row",
      '{"inputs":[1,2]}\n{"inputs":[1,2,3]}',
      /line 2 of standard input, field "inputs" has a list of 3 where the first row has 2/,
    ],
    ["a missing field", '{"inputs":[1],"labels":1}\n{"inputs":[1]}', /line 2.*"labels" is missing/],
    ["a text among numbers", '{"inputs":[1],"labels":1}\n{"inputs":[1],"labels":"x"}', /line 2.*"x" is no number/],
    ["a number among texts", '{"inputs":[1],"labels":"x"}\n{"inputs":[1],"labels":1}', /line 2.*label 1 is no text/],
    ["an empty class", '{"inputs":[1],"labels":"x"}\n{"inputs":[1],"labels":" "}', /line 2.*label "" is empty/],
    ["a row without its class", '{"inputs":[1],"labels":"x"}\n{"inputs":[1]}', /line 2.*has no label/],
    ["a word", '{"inputs":[1]}\n{"inputs":["x"]}', /line 2.*"x" where a finite number/],
    ["a fraction among whole labels", '{"inputs":[1],"labels":1}\n{"inputs":[1],"labels":1.5}', /1\.5.*choose float32/],
    ["broken JSON", '{"inputs":[1]}\n{"inputs":', /line 2 of standard input is not JSON/],
    ["neither text nor numbers", '{"x":1}', /neither a text in "text" nor numbers/],
    ["text that ends", '{"text":"a"}\n{"label":1}', /line 2.*no text in its field "text"/],
    ["a list", "[1]", /not a JSON object/],
  ];
  for (const [what, content, message] of wrong)
    it(`refuses ${what}`, async () => {
      await assert.rejects(imported({ format: "jsonl" }, content), { name: "DcnrError", message });
    });

  it("refuses invalid UTF-8 by its line", async () => {
    await assert.rejects(
      imported({ format: "jsonl" }, Buffer.from('{"text":"a"}\n{"text":"\xff"}', "latin1")),
      /line 2.*not valid UTF-8/,
    );
  });
});

describe("importing CSV", () => {
  it("takes the last column, or the one that is called so, for the label", async () => {
    const plain = await imported({ format: "csv" }, "1,2,0\n3,4,1\n");
    assert.deepEqual(await values(plain.manifest, plain.blobs, "inputs"), [
      [1, 2],
      [3, 4],
    ]);
    assert.deepEqual(await values(plain.manifest, plain.blobs, "labels"), [[0], [1]]);
    const named = await imported({ format: "csv" }, '\ufeff"label",x,"the, y"\n7,1,"2.5"\n8,3,4\n');
    assert.deepEqual(await values(named.manifest, named.blobs, "labels"), [[7], [8]]);
    assert.deepEqual(await values(named.manifest, named.blobs, "inputs"), [
      [1, 2.5],
      [3, 4],
    ]);
    const chosen = await imported({ format: "csv", labels: "x" }, "x,y\n1,2\n");
    assert.deepEqual(await values(chosen.manifest, chosen.blobs, "labels"), [[1]]);
  });

  const wrong: [string, string, RegExp][] = [
    ["ragged rows", "1,2,3\n1,2\n", /line 2 of standard input has 2 columns, the first line has 3/],
    ["words", "a,b\nx,1\n", /line 2 of standard input, column a has "x" where a number/],
    ["holes", "1,2\n3,\n", /line 2 of standard input, column 2 has "" where a label/],
    ["holes among classes", "a,b\n1,x\n2, \n", /line 3 of standard input, column b has " " where a label/],
    ["a text among numbers", "a,b\n1,2\n3,x\n", /line 3 .*the label "x" is no number.*all numbers or all texts/],
    ["a number among texts", "a,b\n1,x\n3,2\n", /line 3 .*the label 2 is no text.*all numbers or all texts/],
    [
      "sentences for labels",
      `a,b\n${Array.from({ length: 1001 }, (_, i) => `1,text ${i}\n`).join("")}`,
      /line 1002 .*"text 1000" is one more label than the 1000 classes/,
    ],
    ["a class that steers the terminal", "a,b\n1,x\u001b[31m\n", /line 2 .*"x\?\[31m" has a character/],
    ["a class with a name of a page", `a,b\n1,${"x".repeat(201)}\n`, /line 2 .*201 characters, at most 200/],
    ["a first line that may be names or a sample", "1,2,kind\n3,4,x\n5,6,y\n", /line 1 .*say --labels "kind"/],
    ["an open quotation mark", 'a,b\n"1,2\n', /line 2.*not closed/],
    ["a header alone", "a,b\n", /no rows/],
    ["nothing", "", /no rows/],
  ];
  for (const [what, content, message] of wrong)
    it(`refuses ${what}`, async () => {
      await assert.rejects(imported({ format: "csv" }, content), { name: "DcnrError", message });
    });
});

describe("labels that are texts", () => {
  const flowers = ["virginica", "setosa", "versicolor", "setosa"];
  const csv = `width,species\n${flowers.map((name, i) => `${i}, ${name}\n`).join("")}`;
  const classesIn = (manifest: Manifest) =>
    manifest.kind === "tensors" ? manifest.fields.map(({ name, dtype, classes }) => ({ name, dtype, classes })) : [];

  it("become classes in the order of their names, whatever the order of the rows", async () => {
    const { manifest, blobs } = await imported({ format: "csv", labels: "species" }, csv);
    const names = flowers.filter((name, i) => flowers.indexOf(name) === i).sort();
    assert.deepEqual(classesIn(manifest), [
      { name: "inputs", dtype: "float32", classes: undefined },
      { name: "labels", dtype: "int32", classes: names },
    ]);
    const numbers = (await values(manifest, blobs, "labels")).flat();
    assert.deepEqual(
      numbers.map((number) => names[number]),
      flowers,
    );
    const [header = "", ...rows] = csv.trimEnd().split("\n");
    const turned = await imported({ format: "csv" }, [header, ...rows.reverse()].join("\n"));
    assert.deepEqual(classesIn(turned.manifest), classesIn(manifest));
    assert.deepEqual((await values(turned.manifest, turned.blobs, "labels")).flat(), numbers.toReversed());
  });

  it("give one dataset, from a file, standard input, JSON lines or written down, and its parts keep the names", async () => {
    const { manifest, blobs } = await imported({ format: "csv" }, csv);
    const lines = flowers.map((labels, i) => JSON.stringify({ inputs: [i], labels: `${labels} ` })).join("\n");
    const inline = JSON.stringify({ inputs: flowers.map((_, i) => [i]), labels: flowers });
    for (const same of [
      await importDataset({ source: file("flowers.csv", csv) }, {}, { blobs }),
      (await imported({ format: "jsonl" }, lines)).manifest,
      await importDataset({ source: file("flowers.jsonl", lines) }, {}, { blobs }),
      await importInline(inline, { blobs }),
    ])
      assert.equal(manifestHash(same), manifestHash(manifest));
    const parts = await splitDataset(manifest, { by: "tail", share: 0.5 }, { fetchBlob: blobs.get, blobs });
    assert.deepEqual(classesIn(parts), classesIn(manifest));
  });

  it("are told from names in the first line: it is a sample if others have its label, names above numbers", async () => {
    const bare = await imported({ format: "csv" }, "1,2,x\n3,4,y\n5,6,x\n");
    assert.deepEqual((await values(bare.manifest, bare.blobs, "labels")).flat(), [0, 1, 0]);
    const numbered = await imported({ format: "csv" }, "0,1,kind\n3,4,1\n5,6,0\n");
    assert.deepEqual((await values(numbered.manifest, numbered.blobs, "labels")).flat(), [1, 0]);
    const named = await imported({ format: "csv", labels: "kind" }, "0,1,kind\n3,4,x\n5,6,y\n");
    assert.deepEqual((await values(named.manifest, named.blobs, "labels")).flat(), [0, 1]);
  });

  it("are kept in memory from standard input, up to a bound that names the remedy", async () => {
    const line = `${" ".repeat(8 << 20)}1,x\n`;
    await assert.rejects(imported({ format: "csv" }, `a,b\n${line.repeat(9)}`, 1 << 20), {
      code: "resource_exhausted",
      message: /more than 64 MiB.*store it in a file/,
    });
  });

  it("cannot be fractions, and leave datasets of numbers as they were", async () => {
    await assert.rejects(imported({ format: "csv", labelsType: "float32" }, csv), /line 2.*classes are int32/);
    const { manifest } = await imported({ format: "csv" }, "a,b\n1,2\n");
    assert.doesNotMatch(manifestText(manifest), /classes/);
  });
});

// Written by numpy.save: arange(12).reshape(4, 3) / 4 in float32, [3, 1, 2, 0] in int64, and a Fortran-ordered array.
const npyInputs =
  "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDQsIDMpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAACAPgAAAD8AAEA/AACAPwAAoD8AAMA/AADgPwAAAEAAABBAAAAgQAAAMEA=";
const npyLabels =
  "k05VTVBZAQB2AHsnZGVzY3InOiAnPGk4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDQsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoDAAAAAAAAAAEAAAAAAAAAAgAAAAAAAAAAAAAAAAAAAA==";
const npyFortran =
  "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUnOiAoMiwgMiksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAQAAAgD8AAEBA";
const decoded = (text: string) => Buffer.from(text, "base64");

describe("importing NumPy arrays", () => {
  it("takes inputs and labels from two files", async () => {
    const blobs = testBlobs();
    const source = file("x.npy", decoded(npyInputs));
    const manifest = await importDataset(
      { source, labels: file("y.npy", decoded(npyLabels)) },
      {},
      { blobs, shardBytes: 24 },
    );
    assert.deepEqual(
      (await values(manifest, blobs, "inputs")).flat(),
      Array.from({ length: 12 }, (_, i) => i / 4),
    );
    assert.deepEqual(await values(manifest, blobs, "labels"), [[3], [1], [2], [0]]);
  });

  it("reads standard input once", async () => {
    const { manifest, blobs } = await imported({ format: "npy" }, decoded(npyInputs));
    assert.equal((await values(manifest, blobs, "inputs")).length, 4);
  });

  it("refuses what is damaged, in another order, or of unequal length", async () => {
    await assert.rejects(imported({ format: "npy" }, "hello, world"), /not a \.npy file/);
    await assert.rejects(imported({ format: "npy" }, decoded(npyFortran)), /Fortran order/);
    await assert.rejects(imported({ format: "npy" }, decoded(npyInputs).subarray(0, -12)), /ends after 3 of 4 samples/);
    await assert.rejects(imported({ format: "npy" }, decoded(npyInputs).subarray(0, -3)), /whole samples/);
    const labels = file(
      "short.npy",
      Buffer.from(decoded(npyLabels).toString("latin1").replace("(4,)", "(3,)"), "latin1"),
    );
    const request = { source: file("x2.npy", decoded(npyInputs)), labels };
    await assert.rejects(importDataset(request, {}, { blobs: testBlobs() }), /4 samples.*3 samples: they must agree/);
  });
});

describe("importing raw values", () => {
  it("takes tensors of the dtype and shape that are said, scaled if wanted", async () => {
    const request = { format: "raw", dtype: "uint8", shape: [2], scale: 0.5 } as const;
    const { manifest, blobs } = await imported(request, Uint8Array.of(2, 4, 6, 8));
    assert.deepEqual(await values(manifest, blobs, "inputs"), [
      [1, 2],
      [3, 4],
    ]);
    await assert.rejects(imported(request, Uint8Array.of(1, 2, 3)), /whole samples/);
    await assert.rejects(imported({ format: "raw" }, Uint8Array.of(1)), /say the dtype and shape/);
  });

  it("takes tokens of two bytes", async () => {
    const { manifest } = await imported(
      { format: "tokens", vocabulary: 500 },
      new Uint8Array(Uint16Array.of(1, 499, 3).buffer),
    );
    assert.ok(manifest.kind === "tokens" && manifest.tokens === 3);
    await assert.rejects(
      imported({ format: "tokens", vocabulary: 499 }, new Uint8Array(Uint16Array.of(1, 499).buffer)),
      /token 499/,
    );
    await assert.rejects(imported({ format: "tokens", vocabulary: 10 }, new Uint8Array(3)), /inside a token/);
  });
});

describe("explicit tensors", () => {
  it("become a dataset as they are written", async () => {
    const blobs = testBlobs();
    const manifest = await importInline('{"inputs": [[1, 2], [3, 4.5]], "labels": [0, 1]}', { blobs });
    assert.deepEqual(await values(manifest, blobs, "inputs"), [
      [1, 2],
      [3, 4.5],
    ]);
    assert.deepEqual(await values(manifest, blobs, "labels"), [[0], [1]]);
  });

  for (const [json, message] of [
    ['{"inputs": [[1, 2], [3]]}', /sample 1, field "inputs" has a list of 1/],
    ['{"inputs": [1, 2], "labels": [1]}', /inputs \(2\), labels \(1\) differ/],
    ['{"inputs": []}', /must be a list of samples/],
    ['{"labels": [1]}', /has no "inputs"/],
    ["[1]", /not a JSON object/],
  ] as const)
    it(`are refused when they are ${json}`, async () => {
      await assert.rejects(importInline(json, { blobs: testBlobs() }), { name: "DcnrError", message });
    });
});

describe("an interrupted import", () => {
  const cases: [string, Omit<ImportRequest, "source">, string | Uint8Array][] = [
    ["text.txt", {}, Array.from({ length: 3000 }, (_, i) => `line ${i} of this text\n`).join("")],
    ["rows.jsonl", {}, Array.from({ length: 400 }, (_, i) => `{"inputs":[${i},2],"labels":${i % 3}}\n`).join("")],
    ["documents.jsonl", {}, Array.from({ length: 400 }, (_, i) => `{"text":"document ${i}"}\n`).join("")],
    ["classes.csv", {}, `a,b,label\n${Array.from({ length: 400 }, (_, i) => `${i},2.5,k${i % 3}\n`).join("")}`],
    ["classes.jsonl", {}, Array.from({ length: 400 }, (_, i) => `{"inputs":[${i}],"labels":"k${i % 3}"}\n`).join("")],
    ["rows.csv", {}, `a,b,label\n${Array.from({ length: 400 }, (_, i) => `${i},2.5,${i % 3}\n`).join("")}`],
    ["values.raw", { dtype: "float32", shape: [2] }, new Uint8Array(new Float32Array(800).map((_, i) => i).buffer)],
    [
      "values.tokens",
      { format: "tokens", vocabulary: 1000 },
      new Uint8Array(new Uint16Array(800).map((_, i) => i).buffer),
    ],
  ];
  for (const [name, request, content] of cases)
    it(`goes on from its checkpoint to the same dataset: ${name}`, async () => {
      const blobs = testBlobs();
      const whole = { ...request, source: file(name, content) };
      const shardBytes = 400;
      const checkpoints: ImportCheckpoint[] = [];
      const expected = await importDataset(
        whole,
        {},
        { blobs, shardBytes, onCheckpoint: (one) => checkpoints.push(one) },
      );
      assert.ok(checkpoints.length >= 2);
      for (const checkpoint of [checkpoints[0], checkpoints[Math.floor(checkpoints.length / 2)]]) {
        const resume = JSON.parse(JSON.stringify(checkpoint)) as ImportCheckpoint;
        assert.ok(resume.position.offset > 0);
        const manifest = await importDataset(whole, {}, { blobs, shardBytes, resume });
        assert.equal(manifestHash(manifest), manifestHash(expected));
      }
    });

  it("does not go on when the file has changed", async () => {
    const source = file("changing.txt", "a text\n".repeat(3000));
    const checkpoints: ImportCheckpoint[] = [];
    const blobs = testBlobs();
    await importDataset({ source }, {}, { blobs, shardBytes: 400, onCheckpoint: (one) => checkpoints.push(one) });
    file("changing.txt", "another text\n".repeat(3000));
    await assert.rejects(importDataset({ source }, {}, { blobs, resume: checkpoints[0] }), /has changed/);
  });
});

describe("a source", () => {
  it("reports how far it is, up to its end", async () => {
    const source = file("long.txt", "some words in a line\n".repeat(50_000));
    const seen: number[] = [];
    await importDataset({ source }, {}, { blobs: testBlobs(), onProgress: ({ bytes }) => seen.push(bytes) });
    assert.ok(seen.length >= 4 && seen.length < 30);
    assert.equal(seen.at(-1), 21 * 50_000);
  });

  it("is refused outside the allowed folders, also through a link, and with the same words for what is not there", async () => {
    const blobs = testBlobs();
    symlinkSync("/etc/hostname", join(folder, "link.txt"));
    const folders = [join(folder)];
    for (const source of ["/etc/hostname", `${folder}/../x.txt`, join(folder, "link.txt"), "file:///etc/hosts.txt"])
      await assert.rejects(importDataset({ source, format: "text" }, { folders }, { blobs }), {
        code: "permission_denied",
        message: /outside the folders/,
      });
    await importDataset({ source: `file://${file("inside.txt", "words\n")}` }, { folders }, { blobs });
  });

  it("is refused when it is empty, missing, a folder, too large, or of an unknown kind", async () => {
    const options = { blobs: testBlobs() };
    await assert.rejects(importDataset({ source: file("empty.txt", "") }, {}, options), /empty\.txt is empty/);
    await assert.rejects(importDataset({ source: join(folder, "no.txt") }, {}, options), { code: "not_found" });
    await assert.rejects(importDataset({ source: folder, format: "text" }, {}, options), /not a file/);
    await assert.rejects(importDataset({ source: file("large.txt", "12345678") }, { bytesMax: 7 }, options), {
      code: "resource_exhausted",
    });
    await assert.rejects(importDataset({ source: "ftp://host/x.txt" }, {}, options), /is no source/);
    await assert.rejects(importDataset({ source: "data.xlsx" }, {}, options), /cannot be told from its name/);
  });
});
