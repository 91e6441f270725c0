// Which keywords of JSON Schema are obeyed, which say nothing about a value, and which may stand beside which others.

import { fail } from "../../core/errors.ts";
import { entryOf } from "../../core/words/table.ts";

export type Schema = Readonly<Record<string, unknown>>;
export type ValueType = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";

/** They tell people about a value, and leave it as it is. */
const annotations = new Set(
  "title description default examples example deprecated readOnly writeOnly $schema $id $comment $defs definitions discriminator".split(
    " ",
  ),
);

/** What each of these asks for is asked for by it alone. */
const alone: readonly (readonly [string, readonly string[]])[] = [
  ["$ref", []],
  ["anyOf", []],
  ["oneOf", []],
  ["allOf", []],
  ["const", ["type"]],
  ["enum", ["type"]],
];

const ofType: Readonly<Record<string, readonly ValueType[]>> = {
  properties: ["object"],
  required: ["object"],
  additionalProperties: ["object"],
  items: ["array"],
  prefixItems: ["array"],
  minItems: ["array"],
  maxItems: ["array"],
  minLength: ["string"],
  maxLength: ["string"],
  pattern: ["string"],
  format: ["string"],
  minimum: ["integer", "number"],
  maximum: ["integer", "number"],
  exclusiveMinimum: ["integer", "number"],
  exclusiveMaximum: ["integer", "number"],
};

const types: readonly ValueType[] = ["null", "boolean", "integer", "number", "string", "array", "object"];
const nameShownMax = 80;

export function checkKeywords(schema: Schema, place: string): void {
  const asking = Object.keys(schema).filter((name) => !annotations.has(name));
  for (const name of asking) {
    const isKnown = name === "type" || Object.hasOwn(ofType, name) || alone.some(([one]) => one === name);
    if (!isKnown) fail("unimplemented", `${place}.${name.slice(0, nameShownMax)} is not supported: leave it out`);
  }
  const whole = alone.find(([name]) => asking.includes(name));
  if (!whole) return;
  const [name, beside] = whole;
  for (const other of asking)
    if (other !== name && !beside.includes(other))
      fail("unimplemented", `${place}.${other} beside ${name} is not supported: write both as one schema`);
}

/** The types that a value may have; undefined: any. A schema that only speaks of one type means that type. */
export function typesOf(schema: Schema, place: string): readonly ValueType[] | undefined {
  const { type } = schema;
  if (type === undefined) {
    const spoken = new Set(Object.keys(schema).flatMap((name) => entryOf(ofType, name)?.at(-1) ?? []));
    return spoken.size === 0 ? undefined : [...spoken];
  }
  const wanted: readonly unknown[] = Array.isArray(type) ? type : [type];
  for (const one of wanted)
    if (!types.includes(one as ValueType))
      fail("invalid_argument", `${place}.type is ${JSON.stringify(one)}, expected ${types.join(", ")}`);
  // Whole numbers are numbers: both would be two ways to write the same.
  return (wanted as ValueType[]).filter((one) => one !== "integer" || !wanted.includes("number"));
}

export function isRecord(value: unknown): value is Schema {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
