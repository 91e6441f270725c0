import assert from "node:assert/strict";
import { test } from "node:test";
import { StopFilter } from "./stop-filter.ts";

/** Feeds the text in pieces of the given size; what was shown, and whether it stopped. */
function shown(text: string, words: string[], size: number): { text: string; stopped: boolean } {
  const filter = new StopFilter(words);
  let seen = "";
  for (let start = 0; start < text.length; start += size) {
    const { text: piece, stopped } = filter.push(text.slice(start, start + size));
    seen += piece;
    if (stopped) return { text: seen, stopped };
  }
  return { text: seen + filter.flush(), stopped: false };
}

test("an answer ends at the first stop word, however it is cut into pieces", () => {
  for (let size = 1; size <= 20; size++) {
    assert.deepEqual(shown("one two END three", ["END"], size), { text: "one two ", stopped: true });
    assert.deepEqual(shown("ababac", ["abac"], size), { text: "ab", stopped: true });
    assert.deepEqual(shown("nothing here", ["END", "here!"], size), { text: "nothing here", stopped: false });
    assert.deepEqual(shown("a\n\nb", ["\n\n", "b"], size), { text: "a", stopped: true });
  }
});
