// Bounds that a schema sets: how many, how long, how large.

import { fail } from "../../core/errors.ts";
import { integerMax } from "./json-text.ts";
import type { Schema } from "./schema-keywords.ts";

/** Each of them costs nodes of the grammar. */
const countMax = 4_096;

export function countsOf(
  schema: Schema,
  leastName: string,
  mostName: string,
  place: string,
): { readonly least: number; readonly most: number | undefined } {
  const count = (name: string): number | undefined => {
    const value = schema[name];
    if (value === undefined) return undefined;
    if (!Number.isInteger(value) || (value as number) < 0)
      fail("invalid_argument", `${place}.${name} must be a whole number of at least 0`);
    if ((value as number) > countMax)
      fail("unimplemented", `${place}.${name} is ${String(value)}, at most ${countMax} is supported: leave it out`);
    return value as number;
  };
  return { least: count(leastName) ?? 0, most: count(mostName) };
}

/** Of whole numbers; without bounds as far as every reader takes them exactly. */
export function boundsOf(schema: Schema, place: string): { readonly low: number; readonly high: number } {
  const bound = (name: string): number | undefined => {
    const value = schema[name];
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !Number.isFinite(value))
      fail("invalid_argument", `${place}.${name} must be a number`);
    return value;
  };
  const over = bound("exclusiveMinimum");
  const under = bound("exclusiveMaximum");
  const lows = [bound("minimum") ?? -integerMax, over === undefined ? -integerMax : Math.floor(over) + 1, -integerMax];
  const highs = [bound("maximum") ?? integerMax, under === undefined ? integerMax : Math.ceil(under) - 1, integerMax];
  return { low: Math.ceil(Math.max(...lows)), high: Math.floor(Math.min(...highs)) };
}
