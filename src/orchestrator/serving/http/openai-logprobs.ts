// Probabilities of tokens as OpenAI writes them: a list in conversations, columns in the older endpoint.

import type { SpelledLogprob, SpelledToken } from "../text.ts";

/** `index` is the choice they belong to. */
export type LogprobsShape = (logprobs: readonly SpelledLogprob[], index: number) => unknown;

export function logprobsShape(chat: boolean): LogprobsShape {
  return chat ? (logprobs) => ({ content: logprobs.map(entry), refusal: null }) : columns();
}

function entry({ top, ...chosen }: SpelledLogprob) {
  return { ...shown(chosen), top_logprobs: top.map(shown) };
}

function shown({ text, logprob, bytes }: SpelledToken) {
  return { token: text, logprob, bytes: bytes ?? null };
}

/** Offsets go on from chunk to chunk of one choice. */
function columns(): LogprobsShape {
  const offsets = new Map<number, number>();
  return (logprobs, index) => {
    let offset = offsets.get(index) ?? 0;
    const starts = logprobs.map(({ text }) => {
      const start = offset;
      offset += text.length;
      return start;
    });
    offsets.set(index, offset);
    return {
      tokens: logprobs.map(({ text }) => text),
      token_logprobs: logprobs.map(({ logprob }) => logprob),
      top_logprobs: logprobs.map(({ top }) => Object.fromEntries(top.map(({ text, logprob }) => [text, logprob]))),
      text_offset: starts,
    };
  };
}
