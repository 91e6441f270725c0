// WordPiece (BERT and its like): a word is cut from the left into the longest pieces there are; pieces inside a word carry
// a prefix. A word that cannot be cut is unknown as a whole.

export interface WordPieceParts {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly unknown: number;
  readonly prefix: string;
  readonly lengthMax: number;
}

export function wordPieceEncoder({ vocabulary, unknown, prefix, lengthMax }: WordPieceParts) {
  return (word: string): Int32Array => {
    const characters = [...word];
    if (characters.length > lengthMax) return Int32Array.of(unknown);
    const ids: number[] = [];
    for (let start = 0; start < characters.length; ) {
      let end = characters.length;
      let id: number | undefined;
      for (; end > start; end--) {
        const piece = characters.slice(start, end).join("");
        id = vocabulary.get(start === 0 ? piece : prefix + piece);
        if (id !== undefined) break;
      }
      if (id === undefined) return Int32Array.of(unknown);
      ids.push(id);
      start = end;
    }
    return Int32Array.from(ids);
  };
}

/** What follows a word without a space when text is put together again. */
const clingings: readonly (readonly [string, string])[] = [
  [" .", "."],
  [" ?", "?"],
  [" !", "!"],
  [" ,", ","],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [" do not", " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

/** How a token is written behind others: pieces inside a word follow at once, words after a space. */
export function wordPieceText(token: string, prefix: string, cleanup: boolean): string {
  const spaced = token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`;
  if (!cleanup) return spaced;
  return clingings.reduce((text, [from, to]) => text.replaceAll(from, to), spaced);
}
