// JSON Schema as a grammar. A part of it is understood, the part that programs write: everything outside it is refused by
// its name and place, because an answer that fits only what we understood would be a wrong answer.

import { fail } from "../../core/errors.ts";
import { addDecimals } from "./decimals.ts";
import { areDisjoint } from "./disjoint.ts";
import { formats } from "./formats.ts";
import { addTexts, distancesOf, endlessRule, type Grammar, GrammarBuilder } from "./grammar.ts";
import { JsonText } from "./json-text.ts";
import { addPattern } from "./pattern.ts";
import { boundsOf, countsOf, decimalBoundsOf } from "./schema-bounds.ts";
import { checkKeywords, isRecord, type Schema, typesOf, type ValueType } from "./schema-keywords.ts";

/** As JSON text. */
export const schemaBytesMax = 64 << 10;
/** Of schemas within schemas; deeper ones may refer to themselves. */
const depthMax = 64;

/** What `response_format: json_object` asks for. */
export const anyObject = '{"type":"object"}';

/** `place` names the schema in errors. */
export function compileSchema(text: string, place = "schema"): Grammar {
  if (text.length > schemaBytesMax)
    fail("resource_exhausted", `${place} has ${text.length} characters, at most ${schemaBytesMax} are allowed`);
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    fail("invalid_argument", `${place} is not JSON`);
  }
  const grammar = new SchemaCompiler(root, place).compile();
  checkPossible(grammar, place);
  return grammar;
}

function checkPossible(grammar: Grammar, place: string): void {
  const endless = endlessRule(grammar);
  if (endless !== undefined)
    fail("invalid_argument", `${grammar.places[endless]} refers to itself with nothing in between: no value fits it`);
  const distances = distancesOf(grammar, () => true);
  const isPossible = (rule: number) => (distances[grammar.starts[rule] as number] as number) < Number.POSITIVE_INFINITY;
  if (isPossible(0)) return;
  const impossible = grammar.places.filter((_, rule) => !isPossible(rule));
  const deepest = impossible.reduce((longest, one) => (one.length > longest.length ? one : longest), place);
  fail("invalid_argument", `${place} cannot be met: nothing can stand at ${deepest}`);
}

class SchemaCompiler {
  readonly #root: unknown;
  readonly #place: string;
  readonly #builder = new GrammarBuilder();
  readonly #json = new JsonText(this.#builder);
  /** Rules by the schema they come from: one that refers to itself is written once. */
  readonly #rules = new Map<unknown, number>();

  constructor(root: unknown, place: string) {
    this.#root = root;
    this.#place = place;
  }

  compile(): Grammar {
    const { start } = this.#builder.rule(this.#place);
    // Vocabularies that put a blank before every word write one at the beginning too.
    const begun = this.#builder.text(start, " ");
    this.#builder.skip(start, begun);
    this.#builder.end(this.#builder.call(begun, this.#rule(this.#root, this.#place, 0)));
    return { starts: this.#builder.starts, places: this.#builder.places, nodes: this.#builder.nodes };
  }

  #rule(schema: unknown, place: string, depth: number): number {
    if (schema === true) return this.#json.value;
    if (schema !== false && !isRecord(schema))
      fail("invalid_argument", `${place} must be a schema: an object or a boolean`);
    const known = this.#rules.get(schema);
    if (known !== undefined) return known;
    if (depth > depthMax) fail("invalid_argument", `${place} is deeper than ${depthMax} schemas`);
    const { id, start } = this.#builder.rule(place);
    if (schema === false) return id;
    this.#rules.set(schema, id);
    const end = this.#builder.node();
    this.#builder.end(end);
    this.#write(schema, place, depth, start, end);
    return id;
  }

  #write(schema: Schema, place: string, depth: number, start: number, end: number): void {
    checkKeywords(schema, place);
    const also = (one: unknown, at: string) => this.#builder.call(start, this.#rule(one, at, depth + 1), end);
    if (schema["$ref"] !== undefined) also(...this.#resolve(schema["$ref"], `${place}.$ref`));
    else if (schema["anyOf"] !== undefined)
      for (const [index, one] of listOf(schema, "anyOf", place).entries()) also(one, `${place}.anyOf[${index}]`);
    else if (schema["oneOf"] !== undefined) {
      const all = listOf(schema, "oneOf", place);
      this.#checkApart(all, `${place}.oneOf`);
      for (const [index, one] of all.entries()) also(one, `${place}.oneOf[${index}]`);
    } else if (schema["allOf"] !== undefined) {
      const all = listOf(schema, "allOf", place);
      if (all.length !== 1) refused(`${place}.allOf`, "with several schemas is not supported: write them as one");
      also(all[0], `${place}.allOf[0]`);
    } else if (schema["const"] !== undefined) addTexts(this.#builder, start, [JSON.stringify(schema["const"])], end);
    else if (schema["enum"] !== undefined) this.#enum(schema, place, start, end);
    else
      for (const type of typesOf(schema, place) ?? [undefined])
        if (type === undefined) this.#builder.call(start, this.#json.value, end);
        else this.#typed(type, schema, place, depth, start, end);
  }

  /** An automaton cannot count how many fit, but where no two have a value in common it need not. */
  #checkApart(all: readonly unknown[], place: string): void {
    const resolve = (schema: unknown, steps = 0): unknown => {
      if (!isRecord(schema) || schema["$ref"] === undefined || steps > depthMax) return schema;
      return resolve(this.#resolve(schema["$ref"], place)[0], steps + 1);
    };
    for (const [index, one] of all.entries())
      for (let other = 0; other < index; other++)
        if (!areDisjoint(one, all[other], resolve))
          refused(
            place,
            `is supported where its schemas have no value in common, and [${other}] and [${index}] may have some: give them different types, or a required property with different constants; or write anyOf`,
          );
  }

  /** Within the same schema: `#`, `#/$defs/name` and any other way by names and numbers. */
  #resolve(reference: unknown, place: string): [unknown, string] {
    if (typeof reference !== "string" || !/^#(\/|$)/.test(reference))
      return refused(place, `${JSON.stringify(reference).slice(0, 80)} is not supported: refer to #/$defs/NAME`);
    let at: unknown = this.#root;
    for (const step of reference.split("/").slice(1)) {
      const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
      at = at !== null && typeof at === "object" && Object.hasOwn(at, name) ? (at as Schema)[name] : undefined;
    }
    if (at === undefined) fail("invalid_argument", `${place}: there is no ${reference.slice(0, 80)} in the schema`);
    return [at, `${this.#place}${reference.slice(1).replaceAll("/", ".")}`];
  }

  #enum(schema: Schema, place: string, start: number, end: number): void {
    const types = typesOf({ type: schema["type"] }, place);
    const values = listOf(schema, "enum", place).filter(
      (value) => types === undefined || types.some((type) => isOf(type, value)),
    );
    addTexts(
      this.#builder,
      start,
      values.map((value) => JSON.stringify(value)),
      end,
    );
  }

  #typed(type: ValueType, schema: Schema, place: string, depth: number, start: number, end: number): void {
    const builder = this.#builder;
    switch (type) {
      case "null":
        builder.text(start, "null", end);
        return;
      case "boolean":
        addTexts(builder, start, ["true", "false"], end);
        return;
      case "integer": {
        const { low, high } = boundsOf(schema, place);
        if (low <= high) this.#json.integers(start, low, high, end);
        return;
      }
      case "number":
        this.#number(schema, place, start, end);
        return;
      case "string":
        this.#string(schema, place, start, end);
        return;
      case "array":
        this.#array(schema, place, depth, start, end);
        return;
      case "object":
        this.#object(schema, place, depth, start, end);
    }
  }

  #number(schema: Schema, place: string, start: number, end: number): void {
    const bounds = decimalBoundsOf(schema, place);
    if (bounds === undefined) this.#builder.call(start, this.#json.number, end);
    else if (bounds.low <= bounds.high) addDecimals(this.#json, start, bounds, place, end);
  }

  #string(schema: Schema, place: string, start: number, end: number): void {
    const { least, most } = countsOf(schema, "minLength", "maxLength", place);
    const builder = this.#builder;
    const [pattern, at] = patternOf(schema, place);
    if (pattern !== undefined) {
      for (const name of ["minLength", "maxLength"])
        if (schema[name] !== undefined)
          refused(`${place}.${name}`, `beside ${at} is not supported: write both as one pattern`);
      const inside = builder.node();
      addPattern(builder, builder.text(start, '"'), pattern, `${place}.${at}`, inside);
      builder.text(inside, '"', end);
      return;
    }
    if (least === 0 && most === undefined) {
      builder.call(start, this.#json.string, end);
      return;
    }
    this.#repeated(builder.text(start, '"'), { least, most }, end, {
      item: (from) => builder.call(from, this.#json.character),
      close: '"',
    });
  }

  #array(schema: Schema, place: string, depth: number, start: number, end: number): void {
    const builder = this.#builder;
    const json = this.#json;
    const { least, most } = countsOf(schema, "minItems", "maxItems", place);
    const first = schema["prefixItems"] === undefined ? [] : listOf(schema, "prefixItems", place);
    const rules = first.map((one, index) => this.#rule(one, `${place}.prefixItems[${index}]`, depth + 1));
    const rest = schema["items"] === undefined ? json.value : this.#rule(schema["items"], `${place}.items`, depth + 1);
    const hasRest = schema["items"] !== false;
    this.#repeated(
      builder.text(start, "["),
      { least, most: hasRest ? most : Math.min(most ?? rules.length, rules.length) },
      end,
      {
        item: (from, index) => builder.call(index === 0 ? from : json.comma(from), rules[index] ?? rest),
        close: "]",
        told: rules.length,
      },
    );
  }

  /** Items from `least` to `most`; those beyond the ones that are told apart are alike, and without a most they go round. */
  #repeated(
    open: number,
    { least, most }: { readonly least: number; readonly most: number | undefined },
    end: number,
    {
      item,
      close,
      told = 0,
    }: {
      readonly item: (from: number, index: number) => number;
      readonly close: string;
      readonly told?: number;
    },
  ): void {
    const builder = this.#builder;
    const apart = most ?? Math.max(least, told, 1);
    let at = open;
    for (let count = 0; count <= apart; count++) {
      if (count >= least) builder.text(at, close, end);
      if (count < apart) at = item(at, count);
    }
    if (most === undefined) builder.skip(item(at, apart), at);
  }

  #object(schema: Schema, place: string, depth: number, start: number, end: number): void {
    const builder = this.#builder;
    const json = this.#json;
    const properties = schema["properties"] ?? {};
    if (!isRecord(properties)) fail("invalid_argument", `${place}.properties must be an object`);
    const required = requiredOf(schema, place);
    const more = schema["additionalProperties"];
    const names = new Set([...Object.keys(properties), ...required]);
    if (names.size === 0 && more !== false) {
      const value = more === undefined ? json.value : this.#rule(more, `${place}.additionalProperties`, depth + 1);
      json.object(start, value, end);
      return;
    }
    // In the order of the schema; names that it does not tell are not written, which every schema allows.
    let fresh = builder.text(start, "{");
    let written = builder.node();
    for (const name of names) {
      const [nextFresh, nextWritten] = [builder.node(), builder.node()];
      const told = Object.hasOwn(properties, name) ? properties[name] : (more ?? true);
      const value = this.#rule(told, `${place}.properties.${name.slice(0, 80)}`, depth + 1);
      const key = builder.node();
      builder.text(fresh, JSON.stringify(name), key);
      builder.text(json.comma(written), JSON.stringify(name), key);
      builder.call(json.colon(key), value, nextWritten);
      if (!required.has(name)) {
        builder.skip(fresh, nextFresh);
        builder.skip(written, nextWritten);
      }
      [fresh, written] = [nextFresh, nextWritten];
    }
    builder.text(fresh, "}", end);
    builder.text(written, "}", end);
  }
}

/** What a string has to look like, and which keyword says so. */
function patternOf({ pattern, format }: Schema, place: string): [pattern: string | undefined, at: string] {
  if (pattern !== undefined && typeof pattern !== "string") fail("invalid_argument", `${place}.pattern must be a text`);
  if (format === undefined) return [pattern, "pattern"];
  if (pattern !== undefined) refused(`${place}.format`, "beside pattern is not supported: write both as one pattern");
  const known = typeof format === "string" && Object.hasOwn(formats, format) ? formats[format] : undefined;
  if (known === undefined)
    refused(
      `${place}.format`,
      `${JSON.stringify(format).slice(0, 80)} is not supported: ${Object.keys(formats).join(", ")} are`,
    );
  return [known, "format"];
}

function requiredOf(schema: Schema, place: string): ReadonlySet<string> {
  const names = schema["required"] ?? [];
  if (!Array.isArray(names) || !names.every((name) => typeof name === "string"))
    fail("invalid_argument", `${place}.required must be a list of names`);
  return new Set(names as string[]);
}

function listOf(schema: Schema, name: string, place: string): readonly unknown[] {
  const value = schema[name];
  if (!Array.isArray(value)) fail("invalid_argument", `${place}.${name} must be a list`);
  return value;
}

function isOf(type: ValueType, value: unknown): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isRecord(value);
  return type === "null" ? value === null : typeof value === type;
}

function refused(place: string, why: string): never {
  return fail("unimplemented", `${place} ${why}`);
}
