// How JSON is written down, as rules: strings of valid UTF-8, numbers that every reader takes exactly enough, and any value.
// There is no white space but one blank behind a comma or a colon: otherwise a model could write blanks for ever.

import type { GrammarBuilder } from "./grammar.ts";

/** So many digits every reader of JSON takes exactly. */
const digitsMax = 15;
export const integerMax = 10 ** digitsMax - 1;

export class JsonText {
  readonly builder: GrammarBuilder;
  readonly #rules = new Map<string, number>();

  constructor(builder: GrammarBuilder) {
    this.builder = builder;
  }

  /** One character of a string, as it is or escaped. */
  get character(): number {
    return this.#rule("a character", (start, end) => {
      const { builder } = this;
      for (const [low, high] of [
        [0x20, 0x21],
        [0x23, 0x5b],
        [0x5d, 0x7f],
      ] as const)
        builder.range(start, low, high, end);
      for (const [first, ...rest] of utf8)
        rest.reduce(
          (at, [low, high], index) => builder.range(at, low, high, index === rest.length - 1 ? end : undefined),
          builder.range(start, ...first),
        );
      const escaped = builder.text(start, "\\");
      builder.oneOf(escaped, '"\\/bfnrt', end);
      this.#unicode(builder.text(escaped, "u"), end);
    });
  }

  /** Four digits that are a character by themselves: no halves of pairs. */
  #unicode(from: number, end: number): void {
    const { builder } = this;
    const hex = "0123456789abcdefABCDEF";
    const three = builder.oneOf(from, hex.replace(/d/gi, ""));
    const two = builder.oneOf(three, hex);
    builder.oneOf(builder.oneOf(from, "dD"), "01234567", two);
    builder.oneOf(builder.oneOf(two, hex), hex, end);
  }

  get string(): number {
    return this.#rule("a string", (start, end) => {
      const inside = this.builder.text(start, '"');
      this.builder.call(inside, this.character, inside);
      this.builder.text(inside, '"', end);
    });
  }

  get number(): number {
    return this.#rule("a number", (start, end) => {
      const { builder } = this;
      const unsigned = builder.node();
      builder.skip(start, unsigned);
      builder.text(start, "-", unsigned);
      const whole = builder.node();
      builder.text(unsigned, "0", whole);
      this.#digits(builder.range(unsigned, 0x31, 0x39), 0, digitsMax - 1, whole);
      const fraction = builder.node();
      builder.skip(whole, fraction);
      this.#digits(builder.text(whole, "."), 1, digitsMax, fraction);
      builder.skip(fraction, end);
      const exponent = builder.oneOf(fraction, "eE");
      const signed = builder.oneOf(exponent, "+-");
      builder.skip(exponent, signed);
      this.#digits(signed, 1, 2, end);
    });
  }

  #digits(from: number, least: number, most: number, to: number): void {
    let at = from;
    for (let count = 0; count <= most; count++) {
      if (count >= least) this.builder.skip(at, to);
      if (count < most) at = this.builder.range(at, 0x30, 0x39);
    }
  }

  /** Whole numbers from `low` to `high`, neither beyond `integerMax`. */
  integers(from: number, low: number, high: number, to: number): void {
    if (low < 0) this.naturals(this.builder.text(from, "-"), Math.max(1, -high), -low, to);
    if (high >= 0) this.naturals(from, Math.max(0, low), high, to);
  }

  /** Length by length; of one length digit by digit, as long as what was written equals the beginning of a bound. */
  naturals(from: number, low: number, high: number, to: number): void {
    for (let length = String(low).length; low <= high && length <= String(high).length; length++) {
      const least = String(Math.max(low, length === 1 ? 0 : 10 ** (length - 1)));
      const most = String(Math.min(high, 10 ** length - 1));
      this.#between(from, least, most, to);
    }
  }

  #between(from: number, least: string, most: string, to: number): void {
    /** Nodes by whether all digits so far are those of the least, and of the most. */
    let nodes = new Map([["true,true", from]]);
    for (let place = 0; place < least.length; place++) {
      const next = new Map<string, number>();
      for (const [tight, node] of nodes) {
        const [isLeast, isMost] = tight.split(",").map((word) => word === "true");
        const low = isLeast ? Number(least[place]) : 0;
        const high = isMost ? Number(most[place]) : 9;
        for (let digit = low; digit <= high; digit++) {
          const name = `${isLeast && digit === low},${isMost && digit === high}`;
          const target = next.get(name) ?? this.builder.node();
          next.set(name, target);
          this.builder.range(node, 0x30 + digit, 0x30 + digit, target);
        }
      }
      nodes = next;
    }
    for (const node of nodes.values()) this.builder.skip(node, to);
  }

  get value(): number {
    return this.#rule("any value", (start, end) => {
      const { builder } = this;
      for (const rule of [this.string, this.number]) builder.call(start, rule, end);
      for (const word of ["true", "false", "null"]) builder.text(start, word, end);
      this.object(start, this.value, end);
      this.list(start, this.value, end);
    });
  }

  /** An object with any names, whose values are of a rule. */
  object(from: number, value: number, to: number): void {
    const { builder } = this;
    const open = builder.text(from, "{");
    builder.text(open, "}", to);
    const named = builder.node();
    const written = builder.node();
    builder.call(open, this.string, named);
    builder.call(this.colon(named), value, written);
    builder.call(this.comma(written), this.string, named);
    builder.text(written, "}", to);
  }

  list(from: number, value: number, to: number): void {
    const { builder } = this;
    const open = builder.text(from, "[");
    builder.text(open, "]", to);
    const written = builder.call(open, value);
    builder.call(this.comma(written), value, written);
    builder.text(written, "]", to);
  }

  comma(from: number): number {
    return this.#blank(this.builder.text(from, ","));
  }

  colon(from: number): number {
    return this.#blank(this.builder.text(from, ":"));
  }

  #blank(from: number): number {
    const to = this.builder.text(from, " ");
    return this.builder.skip(from, to);
  }

  /** Rules may name themselves: the number is known before the rule is written. */
  #rule(name: string, write: (start: number, end: number) => void): number {
    const known = this.#rules.get(name);
    if (known !== undefined) return known;
    const { id, start } = this.builder.rule(name);
    this.#rules.set(name, id);
    const end = this.builder.node();
    this.builder.end(end);
    write(start, end);
    return id;
  }
}

type Range = readonly [low: number, high: number];
const tail: Range = [0x80, 0xbf];
/** Characters beyond ASCII, by the ranges of their bytes (RFC 3629). */
const utf8: readonly (readonly [Range, ...Range[]])[] = [
  [[0xc2, 0xdf], tail],
  [[0xe0, 0xe0], [0xa0, 0xbf], tail],
  [[0xe1, 0xec], tail, tail],
  [[0xed, 0xed], [0x80, 0x9f], tail],
  [[0xee, 0xef], tail, tail],
  [[0xf0, 0xf0], [0x90, 0xbf], tail, tail],
  [[0xf1, 0xf3], tail, tail, tail],
  [[0xf4, 0xf4], [0x80, 0x8f], tail, tail],
];
