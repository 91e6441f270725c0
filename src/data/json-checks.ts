// Small checks for JSON that comes from outside: each gives the value with its type, or says what was expected.

import { fail } from "../core/errors.ts";
import { parseSha256, type Sha256 } from "../core/ids.ts";

export type Json = Readonly<Record<string, unknown>>;

export function record(value: unknown, what: string): Json {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    fail("invalid_argument", `${what} must be a JSON object`);
  return value as Json;
}

export function onlyKeys(json: Json, known: readonly string[], what: string): void {
  const unknown = Object.keys(json).find((key) => !known.includes(key));
  if (unknown !== undefined)
    fail("invalid_argument", `${what} has the unknown key "${unknown.slice(0, 80)}", known are ${known.join(", ")}`);
}

export function list(value: unknown, what: string, lengthMax: number): readonly unknown[] {
  if (!Array.isArray(value)) fail("invalid_argument", `${what} must be a list`);
  if (value.length > lengthMax)
    fail("invalid_argument", `${what} has ${value.length} entries, at most ${lengthMax} are allowed`);
  return value;
}

export function integer(value: unknown, what: string, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least || value > most)
    fail("invalid_argument", `${what} is ${JSON.stringify(value)}, expected a whole number from ${least} to ${most}`);
  return value;
}

export function share(value: unknown, what: string): number {
  if (typeof value !== "number" || !(value >= 0 && value <= 1))
    fail("invalid_argument", `${what} is ${JSON.stringify(value)}, expected a share from 0 to 1`);
  return value;
}

export function string(value: unknown, what: string): string {
  return typeof value === "string" ? value : fail("invalid_argument", `${what} must be a text`);
}

export function hash(value: unknown, what: string): Sha256 {
  return parseSha256(string(value, what), what);
}
