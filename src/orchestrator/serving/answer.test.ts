import assert from "node:assert/strict";
import { test } from "node:test";
import { tokenTable } from "../../data/bpe/token-table.ts";
import { answerText, bareTokens, type TokenBatch } from "./answer.ts";
import type { TextPiece } from "./text.ts";

const words = ["call", " me", " ish", "mael", "é", "", ""];
const spellings = words.map((word) => new TextEncoder().encode(word));
// One character in two tokens.
spellings[5] = Uint8Array.of(0xc3);
spellings[6] = Uint8Array.of(0xa9);
const table = tokenTable(spellings, { specials: [], stripLeadingSpace: false });

async function* batches(tokens: readonly number[]): AsyncGenerator<TokenBatch> {
  for (const [index, token] of tokens.entries())
    yield {
      tokens: [token],
      logprobs: [{ token, logprob: -token, top: [{ token, logprob: -token }] }],
      ...(index === tokens.length - 1 ? { finish: "length" as const } : {}),
    };
}

async function read(pieces: AsyncIterable<TextPiece>) {
  const all: TextPiece[] = [];
  for await (const piece of pieces) all.push(piece);
  return { text: all.map(({ text }) => text).join(""), told: all.flatMap(({ logprobs = [] }) => logprobs) };
}

test("every token that is shown has its probability, in order, parts of characters too", async () => {
  const { text, told } = await read(answerText(batches([0, 1, 5, 6, 3]), table, [], 1));
  assert.equal(text, "call meémael");
  assert.deepEqual(
    told.map(({ logprob }) => logprob),
    [-0, -1, -5, -6, -3],
  );
  assert.deepEqual(told[2]?.bytes, [0xc3]);
});

test("tokens of a stop word are not told, those before it are", async () => {
  const { text, told } = await read(answerText(batches([0, 1, 2, 3, 0]), table, ["ishmael"], 1));
  assert.equal(text, "call me ");
  assert.deepEqual(
    told.map(({ text: token }) => token),
    ["call", " me", " ish"],
  );
  const held = await read(answerText(batches([0, 2]), table, ["ishmael"], 1));
  assert.equal(held.told.length, 2, "what only looked like a stop word is told in the end");
});

test("an answer that goes on behind a prompt keeps the space at its start, a turn of its own does not have one", async () => {
  const sentencePiece = { ...table, stripLeadingSpace: true };
  assert.equal((await read(answerText(batches([1, 3]), sentencePiece, [], 1, true))).text, " memael");
  assert.equal((await read(answerText(batches([1, 3]), sentencePiece, [], 1))).text, "memael");
});

test("a model without a vocabulary names tokens by their ids", async () => {
  const { told } = await read(bareTokens(batches([4]), 1));
  assert.deepEqual(told[0]?.text, "token_id:4");
});
