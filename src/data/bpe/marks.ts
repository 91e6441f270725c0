// Marks: one character for each special token, from a plane of Unicode that nobody writes in. Text of which some is
// ours and some a stranger's has marks where we mean a token; a token that a stranger spells out stays text.

import type { AddedToken } from "./tokenizer.ts";

/** The last private plane: 65,534 characters. */
const firstMark = 0x100000;
const marksMax = 65_534;
const anyMark = /[\u{100000}-\u{10fffd}]/gu;

/** Special tokens in the order of their marks. Plain words are left out: they mean nothing special in a text. */
export function markedTokens(added: readonly AddedToken[]): readonly AddedToken[] {
  return added.filter(({ special, content }) => special && !/^\w*$/.test(content)).slice(0, marksMax);
}

export function markOf(index: number): string {
  return String.fromCodePoint(firstMark + index);
}

/** Our own text: special tokens that are spelt out become marks. */
export function markSpecials(text: string, added: readonly AddedToken[]): string {
  const marks = markedTokens(added).map(({ content }, index) => [content, markOf(index)] as const);
  let marked = withoutMarks(text);
  // Longer ones first: one token's spelling may begin another's.
  for (const [content, mark] of marks.sort(([a], [b]) => b.length - a.length))
    marked = marked.replaceAll(content, mark);
  return marked;
}

/** A stranger's text: whatever could be taken for a mark is replaced. */
export function withoutMarks(text: string): string {
  return text.replace(anyMark, "\ufffd");
}
