// The data commands as a user types them, against a real orchestrator process.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { loadTokenizer } from "../src/data/bpe/json.ts";

const folder = mkdtempSync(join(tmpdir(), "dcnr-data-commands-"));
const program = join(import.meta.dirname, "..", "bin", "dcnr.js");
let orchestrator: ChildProcess;
let address = "";

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly error: string;
}

function dcnr(words: readonly string[], input = ""): Promise<Ran> {
  const environment = { ...process.env, DCNR_ORCHESTRATOR: address, XDG_DATA_HOME: folder, NO_COLOR: "1" };
  const child = spawn(process.execPath, [program, ...words], { env: environment });
  let out = "";
  let error = "";
  child.stdout.on("data", (piece) => (out += piece));
  child.stderr.on("data", (piece) => (error += piece));
  child.stdin.end(input);
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, out, error })));
}

async function succeed(words: readonly string[], input?: string): Promise<string> {
  const { code, out, error } = await dcnr(words, input);
  assert.equal(code, 0, `dcnr ${words.join(" ")}: ${error}`);
  return out;
}

before(async () => {
  orchestrator = spawn(process.execPath, [
    program,
    "orchestrator",
    "--listen",
    "127.0.0.1:0",
    "--dir",
    join(folder, "orchestrator"),
    "--log",
    "none",
  ]);
  address = await new Promise<string>((resolve, reject) => {
    let seen = "";
    const look = (piece: Buffer) => {
      seen += piece;
      const found = /http:\/\/(127\.0\.0\.1:\d+)/.exec(seen)?.[1];
      if (found) resolve(found);
    };
    orchestrator.stdout?.on("data", look);
    orchestrator.stderr?.on("data", look);
    orchestrator.on("exit", () => reject(new Error(`the orchestrator ended: ${seen}`)));
  });
});

after(() => {
  orchestrator.kill();
  rmSync(folder, { recursive: true, force: true });
});

describe("data commands", () => {
  it("go from a text to tokens that decode to it", async () => {
    const text = Array.from({ length: 2000 }, (_, i) => `This is line ${i} of a small text.\n`).join("");
    const file = join(folder, "text.txt");
    writeFileSync(file, text);
    await succeed(["dataset", "add", "text", file]);
    await succeed(["dataset", "split", "text", "text-split", "--by", "tail", "--share", "0.2"]);
    const vocabulary = join(folder, "tokenizer.json");
    await succeed(["vocab", "train", "small", "--dataset", "text-split", "--size", "300", "--out", vocabulary]);
    assert.equal(loadTokenizer(readFileSync(vocabulary, "utf8")).vocabularySize, 300);
    await succeed(["dataset", "tokenize", "text-split", "tokens", "--vocab", "small"]);
    const shown = JSON.parse(
      await succeed(["dataset", "show", "tokens", "--count", "1", "--context", "40", "--json"]),
    ) as {
      samples: { text: string }[];
    };
    assert.ok(text.startsWith(shown.samples[0]!.text));
    assert.ok(shown.samples[0]!.text.length > 40);
    const names = (JSON.parse(await succeed(["dataset", "list", "--json"])) as { name: string }[]).map(
      (one) => one.name,
    );
    assert.deepEqual(names, ["text", "text-split", "tokens"]);
  });

  it("take rows from standard input and explicit tensors, and forget them again", async () => {
    await succeed(["dataset", "add", "rows", "-", "--format", "csv"], "a,b,label\n1,2,0\n3,4,1\n");
    assert.match(await succeed(["dataset", "show", "rows"]), /inputs float32 \[2\]: 3, 4/);
    await succeed(["dataset", "add", "inline", "--inline", '{"inputs": [[0, 1]], "labels": [1]}']);
    await succeed(["dataset", "remove", "rows"]);
    const gone = await dcnr(["dataset", "show", "rows"]);
    assert.notEqual(gone.code, 0);
    assert.match(gone.error, /there is no dataset rows/);
  });

  it("refuse bad data and private addresses in one sentence", async () => {
    const ragged = await dcnr(["dataset", "add", "bad", "-", "--format", "csv"], "a,b\n1,2\n3\n");
    assert.notEqual(ragged.code, 0);
    assert.match(ragged.error, /line 3 of standard input has 1 columns, the first line has 2/);
    const inside = await dcnr(["dataset", "add", "bad", `https://${address}/secret.txt`]);
    assert.notEqual(inside.code, 0);
    assert.match(inside.error, /not a public address/);
  });

  it("import a model folder", async () => {
    const fixture = join(import.meta.dirname, "..", "src", "models", "fixtures", "llama");
    await succeed(["model", "import", fixture, "--name", "tiny"]);
    assert.match(await succeed(["model", "list"]), /tiny/);
  });
});
