// GGUF files against Hugging Face Transformers, which reads them by itself: fixtures/make-gguf.py wrote both.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { loadTokenizer } from "../../data/bpe/json.ts";
import { LoneModel } from "../fixtures.testing.ts";
import { storedAs } from "./blocks.ts";
import type { GgufValue } from "./file.ts";
import { importGguf } from "./import.ts";
import { tokenizerFrom } from "./tokenizer.ts";

const folder = fileURLToPath(new URL("../fixtures/gguf/", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "gguf-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

const lines = <T>(file: string) =>
  readFileSync(join(folder, file), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as T);

interface Model {
  readonly name: string;
  readonly ids: readonly number[];
  /** Of the last three positions, the first 64 tokens. */
  readonly logits: readonly (readonly number[])[];
  readonly texts?: readonly (readonly [string, readonly number[]])[];
}

describe("a way to store numbers", () => {
  for (const { type, kind, bytes, numbers } of lines<{ type: number; kind: string; bytes: string; numbers: number[] }>(
    "blocks.ndjson",
  ))
    it(`${kind} gives the numbers that the package gguf gives`, () => {
      const content = Buffer.from(bytes, "base64");
      const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
      const ours = storedAs(type, "x").decode(view, numbers.length);
      for (const [i, number] of numbers.entries())
        assert.ok(
          Math.abs((ours[i] as number) - number) <= 1e-7 * (1 + Math.abs(number)),
          `${i}: ${ours[i]}, ${number}`,
        );
    });
});

for (const { name, ids, logits, texts } of lines<Model>("models.ndjson"))
  describe(`the GGUF file ${name}`, () => {
    it("gives Transformers' logits within 1e-5", async () => {
      const model = await importGguf(join(folder, `${name}.gguf`), { context: ids.length });
      const ours = await (await LoneModel.open(model)).logits(ids);
      const classes = ours.length / ids.length;
      for (const [i, row] of logits.entries())
        for (const [token, value] of row.entries()) {
          const own = ours[(ids.length - logits.length + i) * classes + token] as number;
          assert.ok(Math.abs(own - value) < 1e-5, `position ${i}, token ${token}: ${own} is not ${value}`);
        }
    });

    it("has its vocabulary inside", { skip: texts === undefined }, async () => {
      const model = await importGguf(join(folder, `${name}.gguf`));
      assert.equal(model.name, name);
      assert.deepEqual(model.chat.endTokens, [2]);
      const tokenizer = loadTokenizer(model.tokenizer!);
      for (const [text, expected] of texts ?? []) assert.deepEqual([...tokenizer.encode(text)], expected, text);
    });
  });

describe("a GGUF file", () => {
  const whole = readFileSync(join(folder, "llama-q8.gguf"));
  const opened = (name: string, content: Buffer) => {
    writeFileSync(join(scratch, `${name}.gguf`), content);
    return importGguf(join(scratch, `${name}.gguf`));
  };
  const changed = (from: string, to: string) => Buffer.from(whole.toString("latin1").replace(from, to), "latin1");

  it("is refused when it is none, cut, or claims what it does not have", async () => {
    await assert.rejects(opened("none", Buffer.from("GGML and more")), /does not begin with GGUF/);
    await assert.rejects(opened("cut", whole.subarray(0, 400)), /ends within its header/);
    await assert.rejects(opened("short", whole.subarray(0, whole.length - 1)), /wrong shape or place/);
    const many = Buffer.from(whole);
    many.writeBigUInt64LE(2n ** 40n, 8);
    await assert.rejects(opened("many", many), /claims 1099511627776 tensors/);
    const old = Buffer.from(whole);
    old.writeUInt32LE(1, 4);
    await assert.rejects(opened("old", old), /version is 1/);
  });

  it("is refused by name where it asks for what we do not know", async () => {
    await assert.rejects(
      opened("key", changed("llama.rope.freq_base", "llama.rope.freq_bass")),
      /"llama.rope.freq_bass"/,
    );
    await assert.rejects(
      opened("tensor", changed("blk.1.ffn_gate", "blk.1.ffn_gaze")),
      /blk.1.ffn_gaze|layers.1.mlp.gate/,
    );
  });
});

describe("a byte-level vocabulary in a GGUF file", () => {
  const source = JSON.parse(readFileSync(new URL("../../data/bpe/fixtures/gpt2.json", import.meta.url), "utf8")) as {
    model: { vocab: Record<string, number>; merges: (string | string[])[] };
  };
  const tokens = Object.entries(source.model.vocab)
    .sort(([, a], [, b]) => a - b)
    .map(([token]) => token);
  const merges = source.model.merges.map((merge) => (typeof merge === "string" ? merge : merge.join(" ")));
  const metadataOf = (pre: string) =>
    new Map<string, GgufValue>([
      ["tokenizer.ggml.model", "gpt2"],
      ["tokenizer.ggml.pre", pre],
      ["tokenizer.ggml.tokens", tokens],
      ["tokenizer.ggml.merges", merges],
    ]);
  const opened = (pre: string) => loadTokenizer(tokenizerFrom(metadataOf(pre)).tokenizer ?? "");

  it("cuts words as its kind does", () => {
    const text = "In 12345 days it's 67 whales";
    const plain = loadTokenizer(readFileSync(new URL("../../data/bpe/fixtures/gpt2.json", import.meta.url), "utf8"));
    assert.deepEqual(opened("phi-2").encode(text), plain.encode(text));
    const pieces = [...opened("smollm").encode(text)].map((id) => opened("smollm").decode([id]));
    assert.ok(
      pieces.every((piece) => !/\d./.test(piece) && !/.\d/.test(piece)),
      `each digit alone: ${pieces.join("|")}`,
    );
    assert.equal(opened("smollm").decode(opened("smollm").encode(text)), text);
  });

  it("begins texts as llama.cpp does where the file does not say whether it should", () => {
    const begun = (pre: string, more: readonly (readonly [string, GgufValue])[] = []) => {
      const text = tokenizerFrom(new Map([...metadataOf(pre), ["tokenizer.ggml.bos_token_id", 7], ...more])).tokenizer;
      return loadTokenizer(text ?? "").encode("Call", { addSpecial: true })[0] === 7;
    };
    assert.equal(begun("llama-bpe"), true, "as all files of Llama 3 have it");
    assert.equal(begun("llama-bpe", [["tokenizer.ggml.add_bos_token", false]]), false);
    assert.equal(begun("qwen2"), false);
  });

  it("ends answers at the tokens that end a turn, by key or by spelling", () => {
    const ended = (word: string) => {
      const spelt = new Map([...metadataOf("gpt-2"), ["tokenizer.ggml.tokens", [...tokens, word]] as const]);
      return tokenizerFrom(spelt.set("tokenizer.ggml.eos_token_id", 2)).chat.endTokens;
    };
    for (const word of ["<end_of_turn>", "<|end|>"]) assert.deepEqual(ended(word), [2, tokens.length], word);
    assert.deepEqual(ended("<other>"), [2]);
  });

  it("lets the special tokens of Phi-3 take the white space behind them, and no others", () => {
    const behind = (name: string) => {
      const metadata = metadataOf("gpt-2")
        .set("general.name", name)
        .set("tokenizer.ggml.tokens", [...tokens, "<|user|>"])
        .set("tokenizer.ggml.token_type", [...tokens.map(() => 1), 3]);
      const tokenizer = loadTokenizer(tokenizerFrom(metadata).tokenizer ?? "");
      return tokenizer.decode([...tokenizer.encode("<|user|>\nCall")].slice(1));
    };
    assert.equal(behind("Phi-3-mini-4k-instruct"), "Call");
    assert.equal(behind("Tiny Llama"), "\nCall");
  });

  it("of an unknown kind is refused with what is known", () => {
    assert.throws(
      () => opened("klingon"),
      /cuts words in the way "klingon": gpt-2, phi-2, .*qwen2, stablelm2 are supported/,
    );
  });
});
