// From token ids to the text of an answer: characters appear when they are complete, stop words end it.

import { bytesOfToken, type TokenTable, tokenDecoder } from "../../data/bpe/token-table.ts";
import type { CallReader } from "../../models/chats/tools.ts";
import type { ChosenLogprobs } from "../../models/choosing.ts";
import { StopFilter } from "./stop-filter.ts";
import type { SpelledLogprob, SpelledToken, TextPiece } from "./text.ts";

export interface TokenBatch {
  readonly tokens: readonly number[];
  /** One for each token, if they were asked for. */
  readonly logprobs?: readonly ChosenLogprobs[];
  readonly finish?: "stop" | "length";
  /** The replica that chose them. */
  readonly replica?: string;
}

export async function* answerText(
  batches: AsyncIterable<TokenBatch>,
  table: TokenTable,
  stop: readonly string[],
  promptTokens: number,
  /** The answer goes on behind the prompt's text, and is not a turn of its own. */
  continues = false,
): AsyncGenerator<TextPiece> {
  const decoder = tokenDecoder(table, { skipSpecial: true, continues });
  const filter = new StopFilter(stop);
  const spelled = new ShownLogprobs(table);
  let generatedTokens = 0;
  for await (const { tokens, logprobs, finish, replica = "" } of batches) {
    generatedTokens += tokens.length;
    let decoded = "";
    for (const [index, id] of tokens.entries()) {
      spelled.add(decoded.length, logprobs?.[index]);
      decoded += decoder.push(id);
    }
    if (finish) decoded += decoder.end();
    spelled.decoded(decoded.length);
    const { text, stopped } = filter.push(decoded);
    const end = stopped ? "stop" : finish;
    const shown = end && !stopped ? text + filter.flush() : text;
    const known = spelled.shown(shown.length, end !== undefined && !stopped);
    yield {
      ...{ text: shown, tokens, replica, promptTokens, generatedTokens },
      ...(known.length > 0 ? { logprobs: known } : {}),
      ...(end ? { finish: end } : {}),
    };
    if (end) return;
  }
}

/** Calls are told from text, and come with the last piece. */
export async function* withCalls(pieces: AsyncIterable<TextPiece>, reader: CallReader): AsyncGenerator<TextPiece> {
  for await (const piece of pieces) {
    const shown = reader.push(piece.text);
    if (!piece.finish) {
      yield { ...piece, text: shown };
      continue;
    }
    const { text, calls } = reader.end();
    // A call that the limit cut off is none: then it is text, and says that it was cut.
    yield {
      ...piece,
      text: shown + text,
      ...(calls.length > 0 ? { calls, finish: "tool_calls" as const } : {}),
    };
  }
}

/** For models without a tokenizer. */
export async function* bareTokens(batches: AsyncIterable<TokenBatch>, promptTokens: number): AsyncGenerator<TextPiece> {
  let generatedTokens = 0;
  for await (const { tokens, logprobs, finish, replica = "" } of batches) {
    generatedTokens += tokens.length;
    const spelled = logprobs?.map((one) => spelling(one, undefined));
    yield {
      ...{ text: "", tokens, replica, promptTokens, generatedTokens },
      ...(spelled ? { logprobs: spelled } : {}),
      ...(finish ? { finish } : {}),
    };
  }
}

/** Probabilities are told with the text they belong to: those of a stop word, which nobody sees, never are. */
class ShownLogprobs {
  readonly #table: TokenTable;
  readonly #waiting: { readonly start: number; readonly logprob: SpelledLogprob }[] = [];
  #decoded = 0;
  #shown = 0;

  constructor(table: TokenTable) {
    this.#table = table;
  }

  /** Of the token whose text begins so far into what is decoded next. */
  add(offset: number, logprobs: ChosenLogprobs | undefined): void {
    if (logprobs) this.#waiting.push({ start: this.#decoded + offset, logprob: spelling(logprobs, this.#table) });
  }

  decoded(length: number): void {
    this.#decoded += length;
  }

  shown(length: number, all: boolean): SpelledLogprob[] {
    this.#shown += length;
    const hidden = all ? -1 : this.#waiting.findIndex(({ start }) => start >= this.#shown);
    return this.#waiting.splice(0, hidden < 0 ? this.#waiting.length : hidden).map(({ logprob }) => logprob);
  }
}

function spelling({ token, logprob, top }: ChosenLogprobs, table: TokenTable | undefined): SpelledLogprob {
  return { ...spelledToken(token, logprob, table), top: top.map((one) => spelledToken(one.token, one.logprob, table)) };
}

/** A token may be a part of a character: its bytes are told too. */
function spelledToken(id: number, logprob: number, table: TokenTable | undefined): SpelledToken {
  if (table === undefined || id >= table.ends.length) return { text: `token_id:${id}`, bytes: undefined, logprob };
  const bytes = bytesOfToken(table, id);
  return { text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes), bytes: [...bytes], logprob };
}
