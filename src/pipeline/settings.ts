// Small checks for what people write in a pipeline's file: each gives the value with its type, or says what was expected.

import { fail } from "../core/errors.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Lines of `name: value`, none of them unknown. */
export function fieldsOf(given: unknown, known: readonly string[], where: string): Fields {
  if (given === null || typeof given !== "object" || Array.isArray(given))
    fail("invalid_argument", `${where} must be lines of \`name: value\`, with ${known.join(", ")}`);
  const odd = Object.keys(given).find((name) => !known.includes(name));
  if (odd !== undefined)
    fail("invalid_argument", `${where} has no setting "${odd.slice(0, 60)}": there are ${known.join(", ")}`);
  return given as Fields;
}

export function text(fields: Fields, name: string, where: string, usual?: string): string {
  const value = fields[name] ?? usual;
  if (typeof value !== "string" || value === "") fail("invalid_argument", `${where}: \`${name}\` must be a text`);
  return value;
}

export function optionalText(fields: Fields, name: string, where: string): string | undefined {
  return fields[name] === undefined ? undefined : text(fields, name, where);
}

export function whole(
  fields: Fields,
  name: string,
  where: string,
  least: number,
  most: number,
  usual?: number,
): number {
  const value = fields[name] ?? usual;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least || value > most)
    fail(
      "invalid_argument",
      `${where}: \`${name}\` is ${JSON.stringify(value) ?? "missing"}, expected a whole number from ${least} to ${most}`,
    );
  return value;
}

export function number(
  fields: Fields,
  name: string,
  where: string,
  least: number,
  most: number,
  usual?: number,
): number {
  const value = fields[name] ?? usual;
  if (typeof value !== "number" || !(value >= least && value <= most))
    fail(
      "invalid_argument",
      `${where}: \`${name}\` is ${JSON.stringify(value) ?? "missing"}, expected a number from ${least} to ${most}`,
    );
  return value;
}

export function choice<Choice extends string>(
  fields: Fields,
  name: string,
  where: string,
  choices: readonly Choice[],
  usual?: Choice,
): Choice {
  const value = fields[name] ?? usual;
  const found = choices.find((one) => one === value);
  return (
    found ??
    fail(
      "invalid_argument",
      `${where}: \`${name}\` is ${JSON.stringify(value) ?? "missing"}, expected one of ${choices.join(", ")}`,
    )
  );
}

/** One text, or a list of them. */
export function texts(given: unknown, name: string, where: string): readonly string[] {
  const list = Array.isArray(given) ? given : [given];
  if (list.length === 0 || list.some((one) => typeof one !== "string" || one === ""))
    fail("invalid_argument", `${where}: \`${name}\` must be a text or a list of texts`);
  return list as string[];
}

export const seedMax = Number.MAX_SAFE_INTEGER;
