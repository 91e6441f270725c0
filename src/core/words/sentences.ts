// Words for people: numbers as one would write them.

/** Made once: finding a language's rules takes far longer than writing a number by them. */
const threeDigitsFormat = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** Three digits, and never an exponent: 0.0123, 4.56, 1,890. */
export function threeDigits(value: number): string {
  return threeDigitsFormat.format(value);
}
