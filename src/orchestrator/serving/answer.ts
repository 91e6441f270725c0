// From token ids to the text of an answer: characters appear when they are complete, stop words end it.

import { type TokenTable, tokenDecoder } from "../../data/bpe/token-table.ts";
import { StopFilter } from "./stop-filter.ts";
import type { TextPiece } from "./text.ts";

export interface TokenBatch {
  readonly tokens: readonly number[];
  readonly finish?: "stop" | "length";
}

export async function* answerText(
  batches: AsyncIterable<TokenBatch>,
  table: TokenTable,
  stop: readonly string[],
  promptTokens: number,
): AsyncGenerator<TextPiece> {
  const decoder = tokenDecoder(table, { skipSpecial: true });
  const filter = new StopFilter(stop);
  let generatedTokens = 0;
  for await (const { tokens, finish } of batches) {
    generatedTokens += tokens.length;
    const decoded = tokens.map((id) => decoder.push(id)).join("") + (finish ? decoder.end() : "");
    const { text, stopped } = filter.push(decoded);
    const end = stopped ? "stop" : finish;
    const shown = end && !stopped ? text + filter.flush() : text;
    yield { text: shown, tokens, promptTokens, generatedTokens, ...(end ? { finish: end } : {}) };
    if (end) return;
  }
}

/** For models without a tokenizer. */
export async function* bareTokens(batches: AsyncIterable<TokenBatch>, promptTokens: number): AsyncGenerator<TextPiece> {
  let generatedTokens = 0;
  for await (const { tokens, finish } of batches) {
    generatedTokens += tokens.length;
    yield { text: "", tokens, promptTokens, generatedTokens, ...(finish ? { finish } : {}) };
  }
}
