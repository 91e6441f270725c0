// Whether two schemas have no value in common, as far as that can be seen: by their types, by values that are listed, or by a property
// that both require and that tells them apart. Then `oneOf` asks for what `anyOf` asks for.

import { isRecord, type Schema, typesOf } from "./schema-keywords.ts";

/** `resolve` follows a reference; undefined where there is none. */
export type Resolve = (schema: unknown) => unknown;

const depthMax = 8;

export function areDisjoint(one: unknown, other: unknown, resolve: Resolve, depth = 0): boolean {
  const [a, b] = [resolve(one), resolve(other)];
  if (a === false || b === false) return true;
  if (!isRecord(a) || !isRecord(b) || depth > depthMax) return false;
  for (const [each, against] of [
    [a, b],
    [b, a],
  ] as const)
    for (const name of ["anyOf", "oneOf"])
      if (Array.isArray(each[name])) return each[name].every((way) => areDisjoint(way, against, resolve, depth + 1));
  const [first, second] = [listed(a), listed(b)];
  if (first && second) return !first.some((value) => second.includes(value));
  const [types, others] = [kindsOf(a), kindsOf(b)];
  if (types && others && !types.some((type) => others.includes(type))) return true;
  if (first || second) return false;
  return types?.join() === "object" && others?.join() === "object" && tellApart(a, b, resolve, depth);
}

/** Values as text, where they are listed. */
function listed(schema: Schema): readonly string[] | undefined {
  if (schema["const"] !== undefined) return [JSON.stringify(schema["const"])];
  return Array.isArray(schema["enum"]) ? schema["enum"].map((value) => JSON.stringify(value)) : undefined;
}

function kindsOf(schema: Schema): readonly string[] | undefined {
  const values = listed(schema);
  if (values) return [...new Set(values.map((text) => kindOf(JSON.parse(text))))];
  // Whole numbers are numbers.
  return typesOf(schema, "")?.map((type) => (type === "integer" ? "number" : type));
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

function tellApart(a: Schema, b: Schema, resolve: Resolve, depth: number): boolean {
  const [ours, theirs] = [a, b].map(({ properties }) => (isRecord(properties) ? properties : {})) as [Schema, Schema];
  const required = (schema: Schema) => (Array.isArray(schema["required"]) ? (schema["required"] as unknown[]) : []);
  return Object.keys(ours).some(
    (name) =>
      Object.hasOwn(theirs, name) &&
      required(a).includes(name) &&
      required(b).includes(name) &&
      areDisjoint(ours[name], theirs[name], resolve, depth + 1),
  );
}
