// Unigram (SentencePiece's other model): every piece has a score, and a word is cut into the pieces whose scores add up to
// the most. What no piece covers is unknown, or spelt in bytes.

import { fail } from "../../core/errors.ts";

export interface UnigramParts {
  /** In id order. Of two that are spelt alike the later counts. */
  readonly pieces: readonly (readonly [piece: string, score: number])[];
  /** Pieces that text is never cut into. */
  readonly control: ReadonlySet<string>;
  readonly unknown: number | undefined;
  readonly byteFallback: boolean;
}

/** An unknown character costs so much more than the worst piece. */
const unknownPenalty = 10;

const encoder = new TextEncoder();

export function unigramEncoder({ pieces, control, unknown, byteFallback }: UnigramParts): (word: string) => Int32Array {
  const ids = new Map(pieces.map(([piece], id) => [piece, id]));
  for (const piece of control) ids.delete(piece);
  const scores = Float64Array.from(pieces, ([, score]) => score);
  const longest = pieces.reduce((most, [piece]) => Math.max(most, piece.length), 0);
  const unknownScore =
    scores.reduce((least, score) => Math.min(least, score), Number.POSITIVE_INFINITY) - unknownPenalty;
  const byteIds = Array.from({ length: 256 }, (_, byte) =>
    ids.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
  );

  /** Where the best way to each place begins, and the piece that ends there; -1: unknown. */
  function bestWay(word: string): { starts: Int32Array; pieceAt: Int32Array } {
    const size = word.length;
    const best = new Float64Array(size + 1);
    const starts = new Int32Array(size + 1).fill(-1);
    const pieceAt = new Int32Array(size + 1);
    const offer = (start: number, end: number, score: number, piece: number) => {
      if (starts[end] !== -1 && score <= (best[end] as number)) return;
      best[end] = score;
      starts[end] = start;
      pieceAt[end] = piece;
    };
    for (let start = 0; start < size; ) {
      const till = best[start] as number;
      const width = (word.codePointAt(start) as number) > 0xffff ? 2 : 1;
      let single = false;
      for (let end = start + width; end <= Math.min(size, start + longest); end++) {
        const piece = ids.get(word.slice(start, end));
        if (piece === undefined) continue;
        offer(start, end, till + (scores[piece] as number), piece);
        if (end === start + width) single = true;
      }
      if (!single) offer(start, start + width, till + unknownScore, -1);
      start += width;
    }
    return { starts, pieceAt };
  }

  /** Neighbours that are unknown count as one. */
  function spelt(text: string): readonly number[] {
    const bytes = byteFallback ? [...encoder.encode(text)].map((byte) => byteIds[byte]) : [undefined];
    if (bytes.every((id) => id !== undefined)) return bytes;
    if (unknown === undefined)
      return fail(
        "invalid_argument",
        `the vocabulary has no piece for "${text.slice(0, 20)}" and none for the unknown`,
      );
    return [unknown];
  }

  return (word) => {
    const { starts, pieceAt } = bestWay(word);
    const found: number[] = [];
    let unknownEnd = -1;
    const flush = (start: number) => {
      if (unknownEnd < 0) return;
      found.unshift(...spelt(word.slice(start, unknownEnd)));
      unknownEnd = -1;
    };
    for (let end = word.length; end > 0; end = starts[end] as number) {
      const piece = pieceAt[end] as number;
      if (piece === -1 || piece === unknown) {
        if (unknownEnd < 0) unknownEnd = end;
      } else {
        flush(end);
        found.unshift(piece);
      }
    }
    flush(0);
    return Int32Array.from(found);
  };
}
