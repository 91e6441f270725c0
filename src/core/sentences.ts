// Words for people: numbers as one would write them.

/** Three digits, and never an exponent: 0.0123, 4.56, 1,890. */
export function threeDigits(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}
