// Regular expressions of schemas (ECMA-262) as parts of a grammar: what is regular in them. What looks around or back, and what asks
// for properties of Unicode, is refused by name.

import { fail } from "../../core/errors.ts";
import { addCharacter, type CharacterRange, joined, lastCodePoint, without } from "./characters.ts";
import type { GrammarBuilder } from "./grammar.ts";

const patternLengthMax = 1_000;
/** Each of them costs the nodes of what is repeated. */
const repeatsMax = 1_000;
const depthMax = 50;

type Part =
  | { readonly kind: "one"; readonly of: readonly CharacterRange[] }
  | { readonly kind: "row"; readonly parts: readonly Part[] }
  | { readonly kind: "either"; readonly parts: readonly Part[] }
  | { readonly kind: "repeat"; readonly part: Part; readonly least: number; readonly most: number | undefined }
  | { readonly kind: "begin" }
  | { readonly kind: "finish" };

const digits: readonly CharacterRange[] = [[0x30, 0x39]];
const wordly: readonly CharacterRange[] = [...digits, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
const blanks: readonly CharacterRange[] = [
  ...([
    [0x09, 0x0d],
    [0x20, 0x20],
    [0xa0, 0xa0],
    [0x1680, 0x1680],
    [0x2000, 0x200a],
  ] as const),
  ...([
    [0x2028, 0x2029],
    [0x202f, 0x202f],
    [0x205f, 0x205f],
    [0x3000, 0x3000],
    [0xfeff, 0xfeff],
  ] as const),
];
const lineEnds: readonly CharacterRange[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const anything: readonly CharacterRange[] = [[0, lastCodePoint]];
const classes: Readonly<Record<string, readonly CharacterRange[]>> = {
  d: digits,
  D: without(digits),
  w: wordly,
  W: without(wordly),
  s: blanks,
  S: without(blanks),
};
const controls: Readonly<Record<string, number>> = { n: 0x0a, r: 0x0d, t: 0x09, f: 0x0c, v: 0x0b, "0": 0 };

/** Between the quotes of a string: texts in which the pattern is found, from node to node. */
export function addPattern(builder: GrammarBuilder, from: number, pattern: string, place: string, to: number): void {
  if (pattern.length > patternLengthMax)
    fail("resource_exhausted", `${place} has ${pattern.length} characters, at most ${patternLengthMax} are allowed`);
  try {
    new RegExp(pattern, "u");
  } catch {
    fail("invalid_argument", `${place} is no regular expression`);
  }
  const whole = new PatternReader(pattern, place).read();
  // A pattern may be found anywhere, unless each of its ways says where it begins and ends.
  for (const way of whole.kind === "either" ? whole.parts : [whole]) {
    const parts = way.kind === "row" ? way.parts : [way];
    const begins = parts[0]?.kind === "begin";
    const finishes = parts.at(-1)?.kind === "finish";
    const inner = parts.slice(begins ? 1 : 0, finishes ? -1 : undefined);
    const write = new PatternWriter(builder, place);
    const around: Part = { kind: "repeat", part: { kind: "one", of: anything }, least: 0, most: undefined };
    const row = [...(begins ? [] : [around]), ...inner, ...(finishes ? [] : [around])];
    write.part({ kind: "row", parts: row }, from, to);
  }
}

class PatternWriter {
  readonly #builder: GrammarBuilder;
  readonly #place: string;

  constructor(builder: GrammarBuilder, place: string) {
    this.#builder = builder;
    this.#place = place;
  }

  part(part: Part, from: number, to: number): void {
    const builder = this.#builder;
    switch (part.kind) {
      case "one":
        addCharacter(builder, from, part.of, to);
        return;
      case "row": {
        let at = from;
        for (const one of part.parts) {
          const next = builder.node();
          this.part(one, at, next);
          at = next;
        }
        builder.skip(at, to);
        return;
      }
      case "either":
        for (const one of part.parts) this.part(one, from, to);
        return;
      case "repeat":
        this.#repeat(part.part, part.least, part.most, from, to);
        return;
      default:
        fail("unimplemented", `${this.#place} has ^ or $ in its middle, which is not supported: put them at its ends`);
    }
  }

  #repeat(part: Part, least: number, most: number | undefined, from: number, to: number): void {
    const builder = this.#builder;
    // Nodes of its own, so that what comes in from elsewhere does not go round.
    let at = builder.skip(from, builder.node());
    for (let count = 0; count < (most ?? least); count++) {
      if (count >= least) builder.skip(at, to);
      const next = builder.node();
      this.part(part, at, next);
      at = next;
    }
    builder.skip(at, to);
    if (most !== undefined) return;
    const again = builder.node();
    this.part(part, at, again);
    builder.skip(again, at);
  }
}

class PatternReader {
  readonly #text: readonly string[];
  readonly #place: string;
  #at = 0;

  constructor(pattern: string, place: string) {
    this.#text = [...pattern];
    this.#place = place;
  }

  read(): Part {
    const part = this.#either(0);
    if (this.#at < this.#text.length) this.#refuse(`${this.#text[this.#at]} at ${this.#at}`);
    return part;
  }

  #refuse(what: string): never {
    return fail("unimplemented", `${this.#place} has ${what}, which is not supported`);
  }

  #next(): string {
    return this.#text[this.#at] ?? "";
  }

  #takes(word: string): boolean {
    if (this.#text.slice(this.#at, this.#at + word.length).join("") !== word) return false;
    this.#at += word.length;
    return true;
  }

  #either(depth: number): Part {
    if (depth > depthMax) this.#refuse(`groups deeper than ${depthMax}`);
    const parts = [this.#row(depth)];
    while (this.#takes("|")) parts.push(this.#row(depth));
    return parts.length === 1 ? (parts[0] as Part) : { kind: "either", parts };
  }

  #row(depth: number): Part {
    const parts: Part[] = [];
    while (this.#at < this.#text.length && this.#next() !== "|" && this.#next() !== ")")
      parts.push(this.#repeated(this.#atom(depth)));
    return { kind: "row", parts };
  }

  #atom(depth: number): Part {
    if (this.#takes("^")) return { kind: "begin" };
    if (this.#takes("$")) return { kind: "finish" };
    if (this.#takes(".")) return { kind: "one", of: without(lineEnds) };
    if (this.#takes("(")) {
      if (this.#takes("?:")) return this.#group(depth);
      if (this.#takes("?<")) {
        if (this.#next() === "=" || this.#next() === "!") this.#refuse("a look behind");
        while (this.#next() !== ">") this.#at++;
        this.#at++;
      } else if (this.#next() === "?") this.#refuse("a look ahead");
      return this.#group(depth);
    }
    if (this.#takes("[")) return { kind: "one", of: this.#set() };
    if (this.#takes("\\")) return { kind: "one", of: this.#escape(false) };
    return { kind: "one", of: [only(this.#text[this.#at++] as string)] };
  }

  #group(depth: number): Part {
    const part = this.#either(depth + 1);
    this.#takes(")");
    return part;
  }

  #repeated(part: Part): Part {
    const bounds = this.#bounds();
    if (bounds === undefined) return part;
    // Lazy or not: the same texts fit.
    this.#takes("?");
    const [least, most] = bounds;
    if (Math.max(least, most ?? 0) > repeatsMax) this.#refuse(`more than ${repeatsMax} repetitions`);
    if (part.kind === "begin" || part.kind === "finish") this.#refuse("a repetition of ^ or $");
    return { kind: "repeat", part, least, most };
  }

  #bounds(): readonly [number, number | undefined] | undefined {
    if (this.#takes("*")) return [0, undefined];
    if (this.#takes("+")) return [1, undefined];
    if (this.#takes("?")) return [0, 1];
    const found = /^\{(\d+)(,?)(\d*)\}/.exec(this.#text.slice(this.#at, this.#at + 40).join(""));
    if (!found) return undefined;
    this.#at += found[0].length;
    const least = Number(found[1]);
    if (found[2] === "") return [least, least];
    return [least, found[3] === "" ? undefined : Number(found[3])];
  }

  /** Behind `[`. */
  #set(): readonly CharacterRange[] {
    const isOpposite = this.#takes("^");
    const ranges: CharacterRange[] = [];
    while (!this.#takes("]")) {
      const low = this.#member();
      const isRange = this.#next() === "-" && this.#text[this.#at + 1] !== "]";
      if (!isRange || low.length !== 1 || low[0]?.[0] !== low[0]?.[1]) {
        ranges.push(...low);
        continue;
      }
      this.#at++;
      const high = this.#member();
      ranges.push([low[0]?.[0] as number, high.at(-1)?.[1] as number]);
    }
    return isOpposite ? without(ranges) : joined(ranges);
  }

  #member(): readonly CharacterRange[] {
    if (this.#takes("\\")) return this.#escape(true);
    return [only(this.#text[this.#at++] as string)];
  }

  /** Behind a backslash. */
  #escape(inSet: boolean): readonly CharacterRange[] {
    const name = this.#text[this.#at++] as string;
    const known = classes[name];
    if (known) return known;
    if (name === "b" && inSet) return [[0x08, 0x08]];
    if (/[bBpPk1-9]/.test(name)) this.#refuse(`\\${name}`);
    if (name === "c") this.#refuse("\\c");
    if (name === "x" || name === "u") return [this.#coded(name)];
    const control = controls[name];
    return [control === undefined ? only(name) : [control, control]];
  }

  #coded(name: string): CharacterRange {
    const rest = this.#text.slice(this.#at, this.#at + 8).join("");
    const found = (name === "x" ? /^([0-9a-f]{2})/i : /^(?:([0-9a-f]{4})|\{([0-9a-f]{1,6})\})/i).exec(rest);
    if (!found) this.#refuse(`\\${name}`);
    this.#at += found[0].length;
    const code = Number.parseInt(found[1] ?? found[2] ?? "", 16);
    return [code, code];
  }
}

function only(character: string): CharacterRange {
  const code = character.codePointAt(0) as number;
  return [code, code];
}
