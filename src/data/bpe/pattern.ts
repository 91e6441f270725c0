// Patterns of tokenizer.json are written for the Oniguruma engine; here they become JavaScript's. The two
// differ in what white space is, and that decides where words end.

import { fail, messageOf } from "../../core/errors.ts";

/** What GPT-2 and everything with a ByteLevel pre-tokenizer uses. */
export const wordPattern = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;

/** Unicode's White_Space; JavaScript's \s has U+FEFF in addition and lacks U+0085. */
export const spaces = String.raw`\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;

/** Longer ones are no honest tokenizer's. */
const patternLengthMax = 2_000;

export function compilePattern(source: string): RegExp {
  if (source.length > patternLengthMax)
    fail(
      "invalid_argument",
      `a tokenizer's pattern has ${source.length} characters, at most ${patternLengthMax} are allowed`,
    );
  refuseSlow(source);
  try {
    return new RegExp(translate(source), "gu");
  } catch (thrown) {
    fail(
      "unimplemented",
      `the tokenizer's pattern ${source.slice(0, 200)} is not understood: ${messageOf(thrown)}`,
      thrown,
    );
  }
}

/** The patterns in use have at most two in a row. */
const repetitionsMax = 3;

/**
 * Vocabularies come from strangers, and a pattern can be written so that matching takes for ever. Without repeated
 * groups, and with few repetitions in a row, the time stays a small power of a word's length.
 */
function refuseSlow(source: string): void {
  // Escapes and classes are one character each; what is left shows the structure.
  const bare = source.replace(/\\p\{[^}]*\}|\\./gi, "a").replace(/\[[^\]]*\]/g, "a");
  if (new Repetitions(bare).most() > repetitionsMax)
    fail(
      "unimplemented",
      `the tokenizer's pattern ${source.slice(0, 200)} could take for ever to match: it repeats too much`,
    );
}

/** Counts how many repetitions can follow each other on one way through a pattern. */
class Repetitions {
  readonly #bare: string;
  #at = 0;

  constructor(bare: string) {
    this.#bare = bare;
  }

  most(): number {
    let most = 0;
    let inARow = 0;
    while (this.#at < this.#bare.length && this.#bare[this.#at] !== ")") {
      const character = this.#bare[this.#at++];
      if (character === "|") {
        most = Math.max(most, inARow);
        inARow = 0;
        continue;
      }
      const group = character === "(" ? this.#group() : undefined;
      const repeats = this.#quantifier();
      // What is optional is not repeated; a group that is repeated may cut a text in ever so many ways.
      if (group !== undefined) inARow += repeats === "no" ? group : Number.POSITIVE_INFINITY;
      else if (repeats === "freely") inARow++;
    }
    return Math.max(most, inARow);
  }

  #group(): number {
    this.#skip(/\?(?:[a-z-]*:|<?[=!]|>|<\w+>)/y);
    const inside = this.most();
    this.#at++;
    return inside;
  }

  /** A plus or question mark behind it changes how it matches, not how often. */
  #quantifier(): "no" | "exactly" | "freely" {
    const found = this.#skip(/(?:[*+?]|\{\d+(?:,\d*)?\})[+?]?/y);
    if (found === "" || found.startsWith("?")) return "no";
    return /^\{\d+\}/.test(found) ? "exactly" : "freely";
  }

  #skip(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found = ""] = pattern.exec(this.#bare) ?? [];
    this.#at += found.length;
    return found;
  }
}

function translate(source: string): string {
  let text = "";
  let insideClass = false;
  for (let i = 0; i < source.length; i++) {
    const character = source[i] as string;
    if (character === "\\") {
      text += translateEscape(source[++i] ?? "", insideClass);
      continue;
    }
    if (character === "[" && insideClass)
      fail("unimplemented", `the tokenizer's pattern nests character classes: ${source.slice(0, 200)}`);
    if (character === "[") insideClass = true;
    if (character === "]") insideClass = false;
    // Possessive quantifiers only forbid backtracking, which these patterns do not need for their matches.
    const possessive = character === "+" && !insideClass && /(^|[^\\])([*+?]|\{\d+(,\d*)?\})$/.test(text);
    if (!possessive) text += character;
  }
  return text;
}

function translateEscape(letter: string, insideClass: boolean): string {
  if (letter === "s") return insideClass ? spaces : `[${spaces}]`;
  if (letter === "S")
    return insideClass ? fail("unimplemented", "a tokenizer's pattern has \\S in a class") : `[^${spaces}]`;
  // Under the `u` flag only these may be escaped without meaning.
  if (/[A-Za-z0-9^$\\.*+?()[\]{}|/-]/.test(letter)) return letter === "-" && !insideClass ? "-" : `\\${letter}`;
  return letter;
}
