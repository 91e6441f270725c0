// Constrained answers against oracles that are too simple to be wrong: JSON.parse, a validator of a page, and every token
// tried by itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import { randomKey, uniformAt } from "../../core/numbers/random.ts";
import { bytesOfToken, decodeTokenBytes, type TokenTable, tokenTable } from "../../data/bpe/token-table.ts";
import { Chooser } from "../choosing.ts";
import { greedy } from "../sampling.ts";
import { Automaton, type State } from "./automaton.ts";
import { GrammarConstraints } from "./constraint.ts";
import { distancesOf } from "./grammar.ts";
import { anyObject, compileSchema } from "./schema.ts";
import { longestToken, orderVocabulary, writableBytes } from "./vocabulary.ts";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** All single bytes, words and pieces of JSON that tokenizers have, parts of characters, and one special token. */
function vocabulary(): TokenTable {
  const pieces = [
    '"}',
    '":',
    '","',
    '": "',
    '"name"',
    "[[",
    "]}",
    "}}",
    "{}",
    "null",
    "true,",
    " false",
    "\\u00",
    "123",
    ".5e",
    "é",
    "whale ",
    "\n\n",
  ];
  const words = Array.from({ length: 120 }, (_, i) => `w${i.toString(36)}`);
  const spellings = [
    ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
    ...[...pieces, ...words].map((text) => new TextEncoder().encode(text)),
    Uint8Array.of(0xa9, 0x22),
    Uint8Array.of(0xf0, 0x9f),
    new TextEncoder().encode("<end>"),
  ];
  return tokenTable(spellings, { specials: [spellings.length - 1], stripLeadingSpace: false });
}

const table = vocabulary();
const size = table.ends.length;
const end = size - 1;
const ordered = orderVocabulary(table, size);

function constraintsOf(schema: unknown): GrammarConstraints {
  const grammar = compileSchema(typeof schema === "string" ? schema : JSON.stringify(schema));
  const writable = writableBytes(ordered);
  return new GrammarConstraints(
    grammar,
    distancesOf(grammar, (byte) => writable.has(byte)),
    ordered,
  );
}

/** What a model whose logits are chance says. */
function answerOf(constraints: GrammarConstraints, seed: number, maxTokens: number, endTokens = [end]) {
  const sampling = { ...greedy, temperature: 1, seed };
  const chooser = new Chooser({ sampling, constraint: constraints.open(), endTokens: new Set(endTokens) });
  const produced: number[] = [];
  for (let position = 0; produced.length < maxTokens; position++) {
    const key = randomKey("logits", seed, position);
    const logits = Float32Array.from({ length: size }, (_, token) => uniformAt(key, token) * 6);
    const left = maxTokens - produced.length - 1;
    const choice = chooser.choose(logits, { position, prompt: [], produced, left });
    if (choice.ends !== "before") produced.push(choice.token);
    if (choice.ends) return { produced, finished: true };
  }
  return { produced, finished: false };
}

const textOf = (tokens: readonly number[]) =>
  new TextDecoder("utf-8", { fatal: true }).decode(decodeTokenBytes(table, tokens));

const person = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 12 },
    age: { type: "integer", minimum: -3, maximum: 120 },
    mood: { enum: ["glad", "sad", null, 3] },
    tags: { type: "array", items: { type: "string" }, minItems: 1, maxItems: 3 },
    height: { type: ["number", "null"] },
    home: { $ref: "#/$defs/place" },
    friends: { type: "array", items: { $ref: "#" } },
  },
  required: ["name", "age", "home"],
  additionalProperties: false,
  $defs: {
    place: {
      anyOf: [
        { type: "object", properties: { street: { type: "string" }, at: { const: [1, "a"] } }, required: ["at"] },
        {
          type: "array",
          prefixItems: [{ type: "boolean" }, { type: "integer", exclusiveMinimum: 98, maximum: 1_002 }],
          items: false,
          minItems: 2,
        },
      ],
    },
  },
};

/** True where a value fits a schema of the kinds above. */
function fits(schema: Record<string, unknown> | boolean, value: Json): boolean {
  if (typeof schema === "boolean") return schema;
  const { $ref, anyOf, enum: values, type, const: only } = schema as Record<string, never>;
  if ($ref) return fits($ref === "#" ? person : (person.$defs.place as never), value);
  if (anyOf) return (anyOf as never[]).some((one) => fits(one, value));
  if (values) return (values as Json[]).includes(value);
  if (only) return JSON.stringify(only) === JSON.stringify(value);
  if (Array.isArray(type)) return (type as string[]).some((one) => fits({ ...schema, type: one }, value));
  const {
    minLength = 0,
    maxLength = 1e9,
    minimum = -1e15,
    exclusiveMinimum = -1e15,
    maximum = 1e15,
    minItems = 0,
    maxItems = 1e9,
  } = schema as Record<string, number>;
  const { properties = {}, required = [], prefixItems = [], items = true } = schema as Record<string, never>;
  if (type === "null") return value === null;
  if (type === "boolean") return typeof value === "boolean";
  if (type === "number") return typeof value === "number";
  if (type === "integer")
    return (
      Number.isInteger(value) &&
      (value as number) >= minimum &&
      (value as number) > exclusiveMinimum &&
      (value as number) <= maximum
    );
  if (type === "string")
    return typeof value === "string" && [...value].length >= minLength && [...value].length <= maxLength;
  if (type === "array")
    return (
      Array.isArray(value) &&
      value.length >= minItems &&
      value.length <= maxItems &&
      value.every((one, i) => fits(prefixItems[i] ?? items, one))
    );
  if (value === null || typeof value !== "object" || Array.isArray(value)) return false;
  if (Object.keys(schema).length === 1) return true;
  return (
    (required as string[]).every((name) => name in value) &&
    Object.entries(value).every(
      ([name, one]) => name in properties && fits((properties as Record<string, never>)[name] as never, one),
    )
  );
}

test("1,000 of 1,000 answers of a random model are JSON that fits its schema, however short they must be", () => {
  const schemas = [person, JSON.parse(anyObject), person.$defs.place] as Record<string, unknown>[];
  const constraints = [person, anyObject, person.$defs.place].map(constraintsOf);
  const lengths = new Set<number>();
  for (let seed = 0; seed < 1_000; seed++) {
    const which = seed % schemas.length;
    const least = constraints[which]?.tokensLeast as number;
    const maxTokens = least + (seed % 7 === 0 ? 0 : seed % 60);
    const { produced, finished } = answerOf(
      constraints[which] as GrammarConstraints,
      seed,
      maxTokens,
      seed % 2 ? [end] : [],
    );
    const text = textOf(produced);
    assert.ok(finished, `seed ${seed}: ${text}`);
    assert.ok(fits(schemas[which] as Record<string, unknown>, JSON.parse(text) as Json), `seed ${seed}: ${text}`);
    lengths.add(produced.length);
  }
  assert.ok(lengths.size > 20, "they differ");
});

/** The states that an answer of chance goes through. */
function* statesOf(automaton: Automaton, seed: number): Generator<State> {
  let state = automaton.start;
  for (let i = 0; i < 40; i++) {
    yield state;
    const possible = Array.from({ length: 256 }, (_, byte) => automaton.step(state, byte)).filter(
      (next) => next !== null,
    );
    if (possible.length === 0) return;
    state = possible[Math.floor(uniformAt(randomKey("walk", seed), i) * possible.length)] as State;
  }
}

test("what may come next is what every token tried by itself says, with any number of tokens left", () => {
  const grammar = compileSchema(JSON.stringify(person));
  const distances = distancesOf(grammar, () => true);
  for (let seed = 0; seed < 6; seed++) {
    const { produced } = answerOf(constraintsOf(person), seed, 80);
    const constraint = constraintsOf(person).open();
    const automaton = new Automaton(grammar, distances);
    let state = automaton.start;
    for (const [index, token] of produced.entries()) {
      for (const left of [state.distance - 1, state.distance + 3, 10_000]) {
        const bits = constraint.allowed(left) as Uint32Array;
        for (let id = 0; id < size; id++) {
          let after: State | null = state;
          for (const byte of bytesOfToken(table, id)) after = after && automaton.step(after, byte);
          const isAllowed = after !== null && id !== end && after.distance <= left;
          assert.equal(
            ((bits[id >> 5] as number) >>> (id & 31)) & 1,
            isAllowed ? 1 : 0,
            `${seed} ${index} ${id} ${left}`,
          );
        }
      }
      constraint.accept(token);
      for (const byte of bytesOfToken(table, token)) state = automaton.step(state, byte) as State;
    }
  }
});

test("distances are those of a search over all bytes", () => {
  const grammar = compileSchema(JSON.stringify(person.$defs.place));
  const automaton = new Automaton(
    grammar,
    distancesOf(grammar, () => true),
  );
  for (let seed = 0; seed < 4; seed++)
    for (const state of statesOf(automaton, seed)) {
      let frontier = new Set([state]);
      let steps = 0;
      for (; ![...frontier].some(({ mayEnd }) => mayEnd); steps++) {
        const next = new Set<State>();
        // Of all characters one of a kind is enough.
        for (const one of frontier)
          for (const byte of '"\\{}[],:0123456789-truefalsn a t"'
            .split("")
            .map((c) => c.charCodeAt(0))
            .concat(0x80, 0xa0, 0x90)) {
            const after = automaton.step(one, byte);
            if (after) next.add(after);
          }
        frontier = next;
        assert.ok(steps < 30);
      }
      assert.equal(state.distance, steps);
    }
});

test("a schema that cannot be met says so, and where", () => {
  for (const [schema, what] of [
    [false, /schema cannot be met: nothing can stand at schema/],
    [{ type: "integer", minimum: 3, maximum: 2 }, /cannot be met/],
    [{ type: "integer", exclusiveMinimum: 1, exclusiveMaximum: 2 }, /cannot be met/],
    [{ type: "string", minLength: 3, maxLength: 2 }, /cannot be met/],
    [{ type: "array", items: false, minItems: 1 }, /cannot be met/],
    [{ enum: [] }, /cannot be met/],
    [{ oneOf: [] }, /cannot be met/],
    [{ type: "string", enum: [1, 2] }, /cannot be met/],
    [
      { properties: { a: { properties: { b: false }, required: ["b"] } }, required: ["a"] },
      /nothing can stand at schema\.properties\.a\.properties\.b/,
    ],
    [{ required: ["x"], additionalProperties: false }, /nothing can stand at schema\.properties\.x/],
    [{ $ref: "#" }, /refers to itself/],
    [{ anyOf: [{ $ref: "#" }, { type: "string" }] }, /refers to itself/],
    [{ properties: { a: { $ref: "#" } }, required: ["a"] }, /cannot be met/],
  ] as const)
    assert.throws(() => compileSchema(JSON.stringify(schema)), what, JSON.stringify(schema));
  assert.doesNotThrow(() => compileSchema('{"type":"object","properties":{"constructor":{"type":"string"}}}'));
  assert.throws(() => compileSchema('{"constructor":1}'), { code: "unimplemented" });
  assert.doesNotThrow(
    () => compileSchema(JSON.stringify({ properties: { a: false } })),
    "what may be left out is left out",
  );
});

test("what is not understood is refused by name and place", () => {
  for (const [schema, name] of [
    [{ properties: { a: { pattern: "^(?=x)" } } }, "schema.properties.a.pattern"],
    [{ type: "string", format: "uri" }, "schema.format"],
    [{ oneOf: [{}, {}] }, "schema.oneOf"],
    [{ not: {} }, "schema.not"],
    [{ allOf: [{}, {}] }, "schema.allOf"],
    [{ type: "array", uniqueItems: true }, "schema.uniqueItems"],
    [{ type: "integer", multipleOf: 2 }, "schema.multipleOf"],
    [{ anyOf: [{ type: "string" }], minLength: 2 }, "schema.minLength beside anyOf"],
    [{ $ref: "https://example.org/x" }, "schema.$ref"],
    [{ type: "string", maxLength: 5_000 }, "schema.maxLength is 5000"],
  ] as const)
    assert.throws(
      () => compileSchema(JSON.stringify(schema)),
      (error: Error & { code?: string }) => error.code === "unimplemented" && error.message.includes(name),
      name,
    );
  for (const text of [
    "{",
    "3",
    '{"type":"whole"}',
    '{"properties":[]}',
    '{"required":"a"}',
    '{"$ref":"#/no"}',
    '{"minItems":-1}',
    '{"anyOf":{}}',
  ])
    assert.throws(
      () => compileSchema(text),
      (error: Error & { code?: string }) => error.code === "invalid_argument",
      text,
    );
  assert.throws(() => compileSchema(`{"title":"${"x".repeat(70_000)}"}`), /at most 65536/);
  const many = {
    type: "array",
    minItems: 4_000,
    items: { type: "array", minItems: 4_000, items: { type: "array", maxItems: 4_096 } },
  };
  const all = { anyOf: Array.from({ length: 6 }, (_, i) => ({ ...many, maxItems: 4_090 + i })) };
  assert.throws(() => compileSchema(JSON.stringify(all)), /more than 40000 nodes/);
});

test("the longest token that begins some bytes is the one that looking at all of them finds", () => {
  for (let round = 0; round < 400; round++) {
    const draw = (count: number, below: number) => Math.floor(uniformAt(randomKey("bytes", round), count) * below);
    const spellings = Array.from({ length: 1 + draw(0, 4) }, (_, i) => bytesOfToken(table, draw(i + 1, size - 1)));
    const bytes = Uint8Array.from(spellings.flatMap((spelling) => [...spelling.subarray(0, 1 + draw(9, 6))]));
    const begins = [...ordered.order].filter((token) => {
      const spelling = bytesOfToken(table, token);
      return spelling.length <= bytes.length && spelling.every((byte, i) => byte === bytes[i]);
    });
    const longest = Math.max(...begins.map((token) => bytesOfToken(table, token).length));
    assert.equal(longestToken(ordered, bytes)?.bytes, longest);
  }
  assert.equal(longestToken(ordered, new Uint8Array(0)), undefined);
});

test("what a schema leaves no choice about is guessed, and fits; where there is a choice nothing is", () => {
  const properties = { name: { type: "string" }, whale: { const: "whale white" }, age: { type: "integer" } };
  const schema = { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
  const constraints = constraintsOf(schema);
  const spell = (tokens: readonly number[]) => Buffer.from(decodeTokenBytes(table, tokens)).toString("latin1");
  const open = () => constraints.open();
  const begun = open();
  assert.deepEqual(begun.guess?.(20), [], "a blank may come first");
  begun.accept("{".charCodeAt(0));
  const all = begun.guess?.(20) ?? [];
  assert.equal(spell(all), '"name":');
  assert.ok(all.length < 4, "in few tokens");
  assert.deepEqual(begun.guess?.(1), all.slice(0, 1));
  assert.deepEqual(constraintsOf({ type: "integer" }).open().guess?.(8), []);
  let [guessed, right] = [0, 0];
  for (let seed = 0; seed < 30; seed++) {
    const { produced } = answerOf(constraints, seed, 200);
    const place = open();
    for (const [i, token] of produced.entries()) {
      const guesses = place.guess?.(4) ?? [];
      const again = open();
      for (const each of [...produced.slice(0, i), ...guesses]) again.accept(each);
      guessed += guesses.length;
      right += spell(produced.slice(i)).startsWith(spell(guesses)) ? guesses.length : 0;
      if (token !== end) place.accept(token);
    }
  }
  assert.ok(guessed > 100);
  assert.equal(right, guessed, "there is no other way to go on");
});
