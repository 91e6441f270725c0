// Numbers between bounds, digit by digit: as long as what was written equals the beginning of a bound, the bound decides which digits
// may follow. Few enough digits that different ones are different numbers to every reader.

import { fail } from "../../core/errors.ts";
import type { GrammarBuilder } from "./grammar.ts";
import type { JsonText } from "./json-text.ts";

export interface DecimalBounds {
  readonly low: number;
  readonly high: number;
  /** The bound itself is left out. */
  readonly over: boolean;
  readonly under: boolean;
}

/** Where a side has no bound. */
export const decimalMax = 999_999_999;
const significantMax = 15;
const fractionUsual = 6;
const fractionMax = 9;

/** A bound without its sign. */
interface Edge {
  readonly whole: number;
  /** Digits behind the point, the last of which is not 0. */
  readonly fraction: string;
  readonly open: boolean;
}

export function addDecimals(
  json: JsonText,
  from: number,
  { low, high, over, under }: DecimalBounds,
  place: string,
  to: number,
): void {
  const edge = (value: number, open: boolean) => edgeOf(Math.abs(value), open, place);
  const zero = (open: boolean): Edge => ({ whole: 0, fraction: "", open });
  if (low < 0)
    // Nobody needs a 0 with a sign.
    new Decimals(json, high < 0 ? edge(high, under) : zero(true), edge(low, over)).write(
      json.builder.text(from, "-"),
      to,
    );
  if (high >= 0)
    new Decimals(json, low > 0 ? edge(low, over) : zero(low === 0 && over), edge(high, under)).write(from, to);
}

function edgeOf(value: number, open: boolean, place: string): Edge {
  const text = value.toFixed(fractionMax);
  if (Number(text) !== value || value >= 10 ** significantMax)
    fail(
      "unimplemented",
      `${place} is ${value}: bounds of numbers may have ${fractionMax} digits behind the point and ${significantMax} in all`,
    );
  const [whole = "0", fraction = ""] = text.split(".");
  return { whole: Number(whole), fraction: fraction.replace(/0+$/, ""), open };
}

class Decimals {
  readonly #json: JsonText;
  readonly #builder: GrammarBuilder;
  readonly #low: Edge;
  readonly #high: Edge;
  readonly #digits: number;

  constructor(json: JsonText, low: Edge, high: Edge) {
    this.#json = json;
    this.#builder = json.builder;
    this.#low = low;
    this.#high = high;
    const usual = Math.min(fractionUsual, significantMax - String(high.whole).length);
    this.#digits = Math.max(usual, low.fraction.length, high.fraction.length);
  }

  write(from: number, to: number): void {
    const [low, high] = [this.#low.whole, this.#high.whole];
    if (low > high) return;
    if (low + 1 < high) {
      const between = this.#builder.node();
      this.#json.naturals(from, low + 1, high - 1, between);
      this.#fraction(between, false, false, to);
    }
    if (low === high) this.#fraction(this.#builder.text(from, String(low)), true, true, to);
    else {
      this.#fraction(this.#builder.text(from, String(low)), true, false, to);
      this.#fraction(this.#builder.text(from, String(high)), false, true, to);
    }
  }

  /** What may follow a whole part that is, or is not, that of a bound. */
  #fraction(from: number, isLow: boolean, isHigh: boolean, to: number): void {
    if (this.#mayEnd(0, isLow, isHigh)) this.#builder.skip(from, to);
    if (this.#digits > 0) this.#more(this.#builder.text(from, "."), 0, isLow, isHigh, to, new Map());
  }

  #more(from: number, place: number, isLow: boolean, isHigh: boolean, to: number, known: Map<string, number>): void {
    if (place >= this.#digits) return;
    const least = isLow ? Number(this.#low.fraction[place] ?? "0") : 0;
    const most = isHigh ? Number(this.#high.fraction[place] ?? "0") : 9;
    for (let digit = least; digit <= most; digit++) {
      const [low, high] = [isLow && digit === least, isHigh && digit === most];
      const name = `${place} ${low} ${high}`;
      const next = known.get(name);
      const node = next ?? this.#builder.node();
      this.#builder.range(from, 0x30 + digit, 0x30 + digit, node);
      if (next !== undefined) continue;
      known.set(name, node);
      if (this.#mayEnd(place + 1, low, high)) this.#builder.skip(node, to);
      this.#more(node, place + 1, low, high, to, known);
    }
  }

  /** After so many digits that equal those of a bound: the rest is as if it were zeros. */
  #mayEnd(place: number, isLow: boolean, isHigh: boolean): boolean {
    const atLow = isLow && place >= this.#low.fraction.length;
    const atHigh = isHigh && place >= this.#high.fraction.length;
    if (isLow && (!atLow || this.#low.open)) return false;
    return !(atHigh && this.#high.open);
  }
}
