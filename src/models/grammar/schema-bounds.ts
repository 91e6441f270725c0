// Bounds that a schema sets: how many, how long, how large.

import { fail } from "../../core/errors.ts";
import { type DecimalBounds, decimalMax } from "./decimals.ts";
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

function bound(schema: Schema, name: string, place: string): number | undefined {
  const value = schema[name];
  if (value === undefined) return undefined;
  if (typeof value !== "number" || !Number.isFinite(value))
    fail("invalid_argument", `${place}.${name} must be a number`);
  return value;
}

/** Of any numbers; undefined where there are none. */
export function decimalBoundsOf(schema: Schema, place: string): DecimalBounds | undefined {
  const [least, over] = ["minimum", "exclusiveMinimum"].map((name) => bound(schema, name, place));
  const [most, under] = ["maximum", "exclusiveMaximum"].map((name) => bound(schema, name, place));
  if ([least, over, most, under].every((one) => one === undefined)) return undefined;
  const low = Math.max(least ?? Number.NEGATIVE_INFINITY, over ?? Number.NEGATIVE_INFINITY);
  const high = Math.min(most ?? Number.POSITIVE_INFINITY, under ?? Number.POSITIVE_INFINITY);
  return {
    low: low === Number.NEGATIVE_INFINITY ? Math.min(-decimalMax, high - decimalMax) : low,
    high: high === Number.POSITIVE_INFINITY ? Math.max(decimalMax, low + decimalMax) : high,
    over: over !== undefined && low === over,
    under: under !== undefined && high === under,
  };
}

/** Of whole numbers; without bounds as far as every reader takes them exactly. */
export function boundsOf(schema: Schema, place: string): { readonly low: number; readonly high: number } {
  const over = bound(schema, "exclusiveMinimum", place);
  const under = bound(schema, "exclusiveMaximum", place);
  const lows = [
    bound(schema, "minimum", place) ?? -integerMax,
    over === undefined ? -integerMax : Math.floor(over) + 1,
    -integerMax,
  ];
  const highs = [
    bound(schema, "maximum", place) ?? integerMax,
    under === undefined ? integerMax : Math.ceil(under) - 1,
    integerMax,
  ];
  return { low: Math.ceil(Math.max(...lows)), high: Math.floor(Math.min(...highs)) };
}
