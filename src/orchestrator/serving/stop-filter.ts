// Ends an answer at the first stop word, also when it arrives in pieces: text that might be the beginning
// of a stop word is held back until it is known not to be.

export class StopFilter {
  readonly #words: readonly string[];
  #held = "";

  constructor(words: readonly string[]) {
    this.#words = words.filter((word) => word !== "");
  }

  /** The text that may be shown now, and whether a stop word was met. */
  push(piece: string): { text: string; stopped: boolean } {
    const text = this.#held + piece;
    const found = this.#words.map((word) => text.indexOf(word)).filter((index) => index >= 0);
    if (found.length > 0) {
      this.#held = "";
      return { text: text.slice(0, Math.min(...found)), stopped: true };
    }
    const keep = Math.max(0, ...this.#words.map((word) => overlap(text, word)));
    this.#held = text.slice(text.length - keep);
    return { text: text.slice(0, text.length - keep), stopped: false };
  }

  /** What was held back, once no more comes. */
  flush(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }
}

/** Length of the longest end of `text` that begins `word`. */
function overlap(text: string, word: string): number {
  for (let length = Math.min(text.length, word.length - 1); length > 0; length--)
    if (text.endsWith(word.slice(0, length))) return length;
  return 0;
}
