// Tokenizer speed on one core: learning a vocabulary of 10,000 tokens, encoding and decoding, on Moby Dick
// repeated with changes up to the size asked for (100 MB in the claim).

import { loadTokenizer, tokenizerJson } from "../src/data/bpe/json.ts";
import { trainBpe } from "../src/data/bpe/train.ts";
import { readMobyDick } from "../src/data/imports/moby-dick.ts";

export interface TokenizerBenchOptions {
  readonly trainMegabytes?: number;
  readonly encodeMegabytes?: number;
  readonly vocabularySize?: number;
}

export interface TokenizerBenchResult {
  readonly trainMegabytes: number;
  readonly trainSeconds: number;
  readonly countSeconds: number;
  readonly vocabularySize: number;
  readonly encodeMegabytesPerSecond: number;
  readonly decodeMegabytesPerSecond: number;
  readonly bytesPerToken: number;
}

/** Chapters until the size is reached. Later rounds spell some words anew, so that there are new words to count. */
function* chaptersUpTo(bytes: number, chapters: readonly string[]): Generator<string> {
  let given = 0;
  for (let round = 0; given < bytes; round++)
    for (const chapter of chapters) {
      if (given >= bytes) return;
      const text =
        round === 0
          ? chapter
          : chapter.replace(/(\w)(\w)(\w{3})\b/g, (all, a, b, c) =>
              c.charCodeAt(0) % 7 === round % 7 ? `${b}${a}${c}${round}` : all,
            );
      given += Buffer.byteLength(text);
      yield text;
    }
}

export async function runTokenizerBench(options: TokenizerBenchOptions = {}): Promise<TokenizerBenchResult> {
  const { trainMegabytes = 20, encodeMegabytes = 20, vocabularySize = 10_000 } = options;
  const chapters = await readMobyDick();
  const trainStart = performance.now();
  let countEnd = trainStart;
  const learnt = await trainBpe(chaptersUpTo(trainMegabytes * 1e6, chapters), {
    vocabularySize,
    onProgress: ({ phase }) => {
      if (phase === "counting") countEnd = performance.now();
    },
  });
  const trainEnd = performance.now();
  const tokenizer = loadTokenizer(tokenizerJson(learnt));
  const texts = [...chaptersUpTo(encodeMegabytes * 1e6, chapters)];
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  const encodeStart = performance.now();
  const encoded = texts.map((text) => tokenizer.encode(text));
  const encodeEnd = performance.now();
  for (const ids of encoded) tokenizer.decode(ids);
  const decodeEnd = performance.now();
  return {
    trainMegabytes,
    trainSeconds: (trainEnd - trainStart) / 1000,
    countSeconds: (countEnd - trainStart) / 1000,
    vocabularySize: tokenizer.vocabularySize,
    encodeMegabytesPerSecond: bytes / 1000 / (encodeEnd - encodeStart),
    decodeMegabytesPerSecond: bytes / 1000 / (decodeEnd - encodeEnd),
    bytesPerToken: bytes / encoded.reduce((sum, ids) => sum + ids.length, 0),
  };
}

export async function tokenizerReport(args: readonly string[]): Promise<string> {
  const result = await runTokenizerBench({ trainMegabytes: Number(args[0] ?? 100) });
  return [
    "| one core | |",
    "|---|---|",
    `| learning ${result.vocabularySize} tokens from ${result.trainMegabytes} MB | ${result.trainSeconds.toFixed(1)} s |`,
    `| encoding | ${result.encodeMegabytesPerSecond.toFixed(1)} MB/s |`,
    `| decoding | ${result.decodeMegabytesPerSecond.toFixed(1)} MB/s |`,
    `| bytes in a token | ${result.bytesPerToken.toFixed(2)} |`,
  ].join("\n");
}
