// Labels that are texts ("setosa") become classes: numbers in the order of their names, so that the same samples in
// another order have the same numbers. A field's manifest keeps the names.

import { fail } from "../../core/errors.ts";
import type { DType } from "../../core/tensor.ts";
import { list, string } from "../json-checks.ts";

/** A column with more distinct texts holds something else: names, sentences, addresses. */
export const classesMax = 1_000;
const classNameCharactersMax = 200;

/** Control characters, halves of characters, and what ends a line or turns the direction of writing. */
const unshowable = /[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

/** Undefined if a class may be called so. Names are shown in terminals: nothing in them may steer one. */
function wrongWith(name: string): string | undefined {
  if (name.trim() !== name || name === "") return "is empty or has spaces around it";
  if (name.length > classNameCharactersMax) return `has ${name.length} characters, at most ${classNameCharactersMax}`;
  if (unshowable.test(name)) return "has a character that cannot be shown";
  return undefined;
}

/** `classes` of a field in a manifest from anywhere. */
export function readClasses(value: unknown, dtype: DType, what: string): readonly string[] {
  const names = list(value, what, classesMax).map((item, i) => {
    const name = string(item, `${what}[${i}]`);
    const wrong = wrongWith(name);
    return wrong ? fail("invalid_argument", `${what}[${i}] ${wrong}`) : name;
  });
  if (names.length === 0) fail("invalid_argument", `${what} is empty: leave it out if the labels are numbers`);
  if (new Set(names).size !== names.length) fail("invalid_argument", `${what} names a class twice`);
  if (dtype !== "int32") fail("invalid_argument", `${what} are names of int32 numbers, the field is ${dtype}`);
  return names;
}

export interface LabelledRow {
  readonly row: Readonly<Record<string, unknown>>;
  /** For messages. */
  readonly where: string;
}

export interface FoundClasses {
  readonly names: readonly string[];
  /** How many rows have this label. */
  count(label: unknown): number;
}

/** Goes through all rows; each must have a text for its label. */
export async function findClasses(rows: AsyncIterable<LabelledRow> | Iterable<LabelledRow>): Promise<FoundClasses> {
  const counts = new Map<string, number>();
  for await (const { row, where } of rows) {
    const name = classOf(row["labels"], where);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    if (counts.size > classesMax)
      fail(
        "invalid_argument",
        `${where}: "${name.slice(0, 40)}" is one more label than the ${classesMax} classes that are possible: is this the column of the labels?`,
      );
  }
  // By code units: no machine's language changes the order.
  return { names: [...counts.keys()].sort(), count: (label) => counts.get(String(label)) ?? 0 };
}

/** From a label to its number among `classes`. */
export function classNumbers(classes: readonly string[]): (label: unknown, where: string) => number {
  const numbers = new Map(classes.map((name, i) => [name, i]));
  return (label, where) =>
    numbers.get(classOf(label, where)) ??
    fail("failed_precondition", `${where}: the label "${label}" was not there before: the source changed, start again`);
}

function classOf(label: unknown, where: string): string {
  if (label === undefined || label === null) fail("invalid_argument", `${where} has no label: every row needs one`);
  if (typeof label !== "string")
    fail(
      "invalid_argument",
      `${where}: the label ${JSON.stringify(label).slice(0, 40)} is no text like those of other rows: labels are all numbers or all texts`,
    );
  const wrong = wrongWith(label);
  return wrong ? fail("invalid_argument", `${where}: the label "${printable(label)}" ${wrong}: name its class`) : label;
}

/** The opposite mixture. */
export function refuseText(label: unknown, where: string): void {
  if (typeof label === "string")
    fail(
      "invalid_argument",
      `${where}: the label "${printable(label)}" is no number like those of other rows: labels are all numbers or all texts`,
    );
}

function printable(label: string): string {
  return label.slice(0, 40).replace(new RegExp(unshowable, "gu"), "?");
}
