// What a study searches: named dimensions, each with the values it may take and when it counts at all. Values are mapped to
// the unit interval and back here, so that searches know nothing of scales. Pure.

import { fail } from "../core/errors.ts";
import { exp, log } from "../core/numbers/math.ts";
import { type RandomKey, uniformAt } from "../core/numbers/random.ts";
import { written } from "../core/words/written.ts";

export type Value = string | number | boolean;
export type Settings = Readonly<Record<string, Value>>;

interface Conditional {
  readonly name: string;
  /** It counts only where an earlier dimension has one of these values. */
  readonly when?: { readonly name: string; readonly values: readonly Value[] };
}

export interface Choice extends Conditional {
  readonly kind: "choice";
  readonly values: readonly Value[];
}

export interface Range extends Conditional {
  readonly kind: "number" | "integer";
  readonly low: number;
  readonly high: number;
  readonly log: boolean;
}

export type Dimension = Choice | Range;
/** A dimension comes after the one that its `when` names. */
export type Space = readonly Dimension[];

const dimensionsMax = 50;
const valuesMax = 200;
const kinds = ["choice", "uniform", "log-uniform", "integer", "log-integer"] as const;

/** Fails with a sentence about what is wrong. */
export function parseSpace(given: unknown): Space {
  if (!isObject(given) || Object.keys(given).length === 0)
    fail(
      "invalid_argument",
      "a study needs `space`: what to search, by setting, for example `rate: {log-uniform: [1e-4, 1]}`",
    );
  const entries = Object.entries(given);
  if (entries.length > dimensionsMax)
    fail("invalid_argument", `${entries.length} settings are searched at once: at most ${dimensionsMax}`);
  const space: Dimension[] = [];
  for (const [name, value] of entries) space.push(parseDimension(name, value, space));
  return space;
}

function parseDimension(name: string, given: unknown, before: Space): Dimension {
  const wrong = (sentence: string): never => fail("invalid_argument", `space.${name.slice(0, 60)}: ${sentence}`);
  if (!isObject(given)) return wrong(`expected one of ${kinds.join(", ")}, for example {uniform: [0, 1]}`);
  const { when, ...rest } = given;
  const [kind, ...more] = Object.keys(rest);
  const known = kinds.find((one) => one === kind);
  if (known === undefined || more.length > 0)
    return wrong(`expected just one of ${kinds.join(", ")}, there is ${Object.keys(rest).join(" and ") || "none"}`);
  const condition = when === undefined ? {} : { when: parseWhen(when, before, wrong) };
  const list = rest[known];
  if (!Array.isArray(list)) return wrong(`${known} is a list`);
  if (known === "choice") return { name, kind: "choice", values: parseChoices(list, wrong), ...condition };
  const [low, high] = list as unknown[];
  if (list.length !== 2 || !isNumber(low) || !isNumber(high)) return wrong(`${known} is two numbers: [least, most]`);
  const whole = known === "integer" || known === "log-integer";
  const isLog = known === "log-uniform" || known === "log-integer";
  if (!(low < high)) return wrong(`${low} is not below ${high}`);
  if (whole && !(Number.isSafeInteger(low) && Number.isSafeInteger(high)))
    return wrong(`${known} takes whole numbers, not [${low}, ${high}]`);
  if (isLog && low <= 0) return wrong(`a logarithm needs values above 0, not from ${low}`);
  return { name, kind: whole ? "integer" : "number", low, high, log: isLog, ...condition };
}

function parseChoices(list: readonly unknown[], wrong: (sentence: string) => never): readonly Value[] {
  if (list.length === 0 || list.length > valuesMax) return wrong(`a choice has from 1 to ${valuesMax} values`);
  if (!list.every(isValue)) return wrong("a choice is between texts, numbers, and true or false");
  if (new Set(list).size < list.length) return wrong("a value stands twice in the choice");
  return list;
}

function parseWhen(
  given: unknown,
  before: Space,
  wrong: (sentence: string) => never,
): NonNullable<Conditional["when"]> {
  const [only, ...more] = isObject(given) ? Object.entries(given) : [];
  if (only === undefined || more.length > 0)
    return wrong("`when` names one other setting, for example {schedule: cosine}");
  const [name, value] = only;
  const values = Array.isArray(value) ? value : [value];
  const other = before.find((one) => one.name === name);
  if (!other) return wrong(`\`when\` names ${name}, which is not searched, or only further below`);
  if (other.kind !== "choice") return wrong(`\`when\` names ${name}, which is no choice`);
  const odd = values.find((one) => !other.values.includes(one as Value));
  if (odd !== undefined) return wrong(`\`when\` wants ${name} to be ${written(odd)}, which is none of its choices`);
  return { name, values: values as Value[] };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function isValue(value: unknown): value is Value {
  return typeof value === "string" || typeof value === "boolean" || isNumber(value);
}

/** Whether it counts beside what was chosen for those before it. */
export function isActive({ when }: Dimension, settings: Settings): boolean {
  if (!when) return true;
  const other = settings[when.name];
  return other !== undefined && when.values.includes(other);
}

/** How many values it has; Infinity where they cannot be counted. */
export function sizeOf(dimension: Dimension): number {
  if (dimension.kind === "choice") return dimension.values.length;
  return dimension.kind === "integer" ? dimension.high - dimension.low + 1 : Number.POSITIVE_INFINITY;
}

/** Whole numbers own the stretch that rounds to them. */
function edges({ kind, low, high, log: isLog }: Range): [number, number] {
  const half = kind === "integer" ? 0.5 : 0;
  const scaled = (value: number) => (isLog ? log(value) : value);
  return [scaled(low - half), scaled(high + half)];
}

/** Of a number, in [0, 1]. */
export function unitOf(dimension: Range, value: number): number {
  const [low, high] = edges(dimension);
  return ((dimension.log ? log(value) : value) - low) / (high - low);
}

/** The number that a place in [0, 1] stands for. */
export function numberAt(dimension: Range, unit: number): number {
  const [low, high] = edges(dimension);
  const place = low + unit * (high - low);
  const value = dimension.log ? exp(place) : place;
  const whole = dimension.kind === "integer" ? Math.round(value) : value;
  return Math.min(dimension.high, Math.max(dimension.low, whole));
}

/** One draw for each dimension, whether it counts or not: what is drawn for one does not depend on the others. */
export function drawnAt(space: Space, key: RandomKey): Settings {
  return settled(space, (dimension, index) => valueAt(dimension, uniformAt(key, index)));
}

export function valueAt(dimension: Dimension, unit: number): Value {
  if (dimension.kind !== "choice") return numberAt(dimension, unit);
  const index = Math.min(dimension.values.length - 1, Math.floor(unit * dimension.values.length));
  return dimension.values[index] as Value;
}

/** Settings from a value for each dimension; those that do not count are left out. */
export function settled(space: Space, choose: (dimension: Dimension, index: number) => Value): Settings {
  const settings: Record<string, Value> = {};
  space.forEach((dimension, index) => {
    const value = choose(dimension, index);
    if (isActive(dimension, settings)) settings[dimension.name] = value;
  });
  return settings;
}
