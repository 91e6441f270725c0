// Patterns, formats, bounds of numbers and oneOf against oracles: JavaScript's own regular expressions, dates and comparisons. Both ways:
// what a random model writes fits, and what fits can be written.

import assert from "node:assert/strict";
import { isIPv4, isIPv6 } from "node:net";
import { test } from "node:test";
import { randomKey, uniformAt } from "../../core/numbers/random.ts";
import { Automaton, type State } from "./automaton.ts";
import { distancesOf } from "./grammar.ts";
import { compileSchema } from "./schema.ts";

function automatonOf(schema: unknown): Automaton {
  const grammar = compileSchema(JSON.stringify(schema));
  return new Automaton(
    grammar,
    distancesOf(grammar, () => true),
  );
}

/** What chance writes; from some length on the shortest way to the end. */
function written(automaton: Automaton, seed: number): string {
  const bytes: number[] = [];
  let state = automaton.start;
  for (let i = 0; !(state.mayEnd && (i > 40 || state.stacks.length === 0)); i++) {
    const ways = Array.from({ length: 256 }, (_, byte) => ({ byte, to: automaton.step(state, byte) }));
    const open = ways.filter((way): way is { byte: number; to: State } => way.to !== null);
    const near = i < 30 ? open : open.filter(({ to }) => to.distance < state.distance);
    const { byte, to } = near[Math.floor(uniformAt(randomKey("written", seed), i) * near.length)] as (typeof open)[0];
    bytes.push(byte);
    state = to;
    if (state.mayEnd && uniformAt(randomKey("ends", seed), i) < 0.3) break;
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
}

function takes(automaton: Automaton, text: string): boolean {
  let state: State | null = automaton.start;
  for (const byte of new TextEncoder().encode(text)) state = state && automaton.step(state, byte);
  return state?.mayEnd ?? false;
}

const patterns = [
  "^a+b?$",
  "^[A-Z]{2,3}-\\d{1,4}$",
  "x",
  "^x",
  "y$",
  "^(ab|c(d|e)*)+$",
  "^a$|b",
  "^[^a-c\\d]{2}$",
  "^\\w+\\s\\S$",
  "^.{3}$",
  '^["\\\\/]+$',
  "^[äöü\\u4e00-\\u9fff]{1,3}$",
  "^\\x41\\u{1F40B}[\\n\\t]?$",
  "^(?:a{0,2}){2}$",
  "^(?<year>\\d{4})-?$",
  "^[-a]{1,2}$",
  "^a*?b$",
  "^$",
  "^[\\]\\-^]+$",
];

/** Texts that are near what patterns ask for. */
function textFor(seed: number): string {
  const letters = [...'aabbccdexxyz01239 -_.^]"\\/\n\tABÄöü鯨🐋AB'];
  const length = Math.floor(uniformAt(randomKey("length", seed), 0) * 7);
  return Array.from(
    { length },
    (_, i) => letters[Math.floor(uniformAt(randomKey("text", seed), i) * letters.length)],
  ).join("");
}

test("a pattern allows what JavaScript finds it in, and nothing else", () => {
  for (const pattern of patterns) {
    const automaton = automatonOf({ type: "string", pattern });
    const oracle = new RegExp(pattern, "u");
    for (let seed = 0; seed < 40; seed++) {
      const text = written(automaton, seed);
      assert.match(JSON.parse(text) as string, oracle, `${pattern} wrote ${text}`);
    }
    let found = 0;
    for (let seed = 0; seed < 3_000; seed++) {
      const text = textFor(seed);
      const isFound = oracle.test(text);
      found += Number(isFound);
      assert.equal(takes(automaton, JSON.stringify(text)), isFound, `${pattern} and ${JSON.stringify(text)}`);
    }
    assert.ok(found < 3_000, pattern);
  }
});

const isDate = (text: string) => {
  const [year = 0, month = 0, day = 0] = text.split("-").map(Number);
  const made = new Date(Date.UTC(2000, 0, 1));
  made.setUTCFullYear(year, month - 1, day);
  return /^\d{4}-\d\d-\d\d$/.test(text) && made.getUTCMonth() === month - 1 && made.getUTCDate() === day;
};
const isTime = (text: string) => !Number.isNaN(Date.parse(`2000-01-01T${text}`));
const oracles: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: isTime,
  "date-time": (text) => isDate(text.slice(0, 10)) && text[10] === "T" && isTime(text.slice(11)),
  uuid: (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text),
  ipv4: isIPv4,
  ipv6: isIPv6,
  hostname: (text) => new URL(`http://${text}.example`).hostname === `${text.toLowerCase()}.example`,
  email: (text) => /^[^\s@.]+(\.[^\s@.]+)*@[^\s@.]+(\.[^\s@.]+)+$/.test(text),
};

test("what is written of a format is of it", () => {
  for (const [format, isOf] of Object.entries(oracles)) {
    const automaton = automatonOf({ type: "string", format });
    for (let seed = 0; seed < 120; seed++) {
      const text = JSON.parse(written(automaton, seed)) as string;
      assert.ok(isOf(text), `${format}: ${text}`);
    }
  }
});

test("all dates of a leap year, of another and of a century can be written, and no others", () => {
  const automaton = automatonOf({ type: "string", format: "date" });
  for (const year of ["2024", "2023", "1900", "2000"])
    for (let month = 0; month <= 13; month++)
      for (let day = 0; day <= 32; day++) {
        const text = `${year}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
        assert.equal(takes(automaton, JSON.stringify(text)), isDate(text), text);
      }
});

const bounds = [
  { minimum: 0, maximum: 1 },
  { exclusiveMinimum: 0, exclusiveMaximum: 1 },
  { minimum: -2.5, maximum: 3.75 },
  { minimum: 0.125, maximum: 0.13 },
  { exclusiveMinimum: 10.5, exclusiveMaximum: 12 },
  { maximum: -0.5 },
  { minimum: 99.99 },
  { minimum: -7, exclusiveMaximum: -3.25 },
  { minimum: 5, maximum: 5 },
];

test("numbers keep their bounds, and every number of few digits between them can be written", () => {
  for (const bound of bounds) {
    const {
      minimum = -1e300,
      maximum = 1e300,
      exclusiveMinimum = -1e301,
      exclusiveMaximum = 1e301,
    } = bound as Readonly<Record<string, number | undefined>>;
    const isIn = (value: number) =>
      value >= minimum && value <= maximum && value > exclusiveMinimum && value < exclusiveMaximum;
    const automaton = automatonOf({ type: "number", ...bound });
    for (let seed = 0; seed < 80; seed++) {
      const text = written(automaton, seed);
      assert.ok(isIn(JSON.parse(text) as number), `${JSON.stringify(bound)} wrote ${text}`);
    }
    for (let thousandths = -8_000; thousandths <= 13_000; thousandths += 5) {
      if (thousandths === 0 && isIn(0)) assert.ok(takes(automaton, "0"));
      const value = thousandths / 1_000;
      if (thousandths !== 0)
        assert.equal(takes(automaton, String(value)), isIn(value), `${JSON.stringify(bound)}: ${value}`);
    }
    for (const text of ["-0", "00", "1.", ".5", "+1", "1e1", "-0.0"]) assert.ok(!takes(automaton, text), text);
  }
});

test("oneOf is anyOf where no two of its schemas have a value in common, and is refused where they may", () => {
  const cat = { properties: { kind: { const: "cat" }, lives: { type: "integer" } }, required: ["kind"] };
  const dog = { properties: { kind: { enum: ["dog", "hound"] }, name: { type: "string" } }, required: ["kind"] };
  const apart = [
    [{ type: "string" }, { type: "integer" }, { type: "null" }],
    [cat, dog],
    [{ const: 1 }, { enum: [2, "1"] }],
    [{ type: "array" }, { anyOf: [{ type: "string" }, { type: "boolean" }] }],
  ];
  for (const oneOf of apart) {
    const [one, any] = [automatonOf({ oneOf }), automatonOf({ anyOf: oneOf })];
    for (let seed = 0; seed < 40; seed++) assert.ok(takes(one, written(any, seed)));
  }
  const shared = { $defs: { cat, dog }, oneOf: [{ $ref: "#/$defs/cat" }, { $ref: "#/$defs/dog" }] };
  assert.ok(takes(automatonOf(shared), '{"kind":"hound"}'));
  for (const oneOf of [
    [{ type: "number" }, { type: "integer" }],
    [
      { type: "string", maxLength: 3 },
      { type: "string", minLength: 2 },
    ],
    [cat, { properties: { kind: { const: "dog" } } }],
    [cat, { ...dog, required: [] }],
    [{ const: 1 }, { type: "integer" }],
    [{}, { type: "string" }],
  ])
    assert.throws(
      () => compileSchema(JSON.stringify({ oneOf })),
      /schema\.oneOf is supported where .*\[0\] and \[1\] may have some/,
    );
});

test("what of patterns is not regular, and what stands beside them, is refused by name", () => {
  for (const [schema, what] of [
    [{ pattern: "(?=a)b" }, /schema\.pattern has a look ahead/],
    [{ pattern: "(?<!a)b" }, /schema\.pattern has a look behind/],
    [{ pattern: "(a)\\1" }, /schema\.pattern has \\1/],
    [{ pattern: "\\bword" }, /schema\.pattern has \\b/],
    [{ pattern: "\\p{L}" }, /schema\.pattern has \\p/],
    [{ pattern: "a^b" }, /schema\.pattern has \^ or \$ in its middle/],
    [{ pattern: "a{5000}" }, /more than 1000 repetitions/],
    [{ pattern: "a", minLength: 2 }, /schema\.minLength beside pattern/],
    [{ format: "date", maxLength: 2 }, /schema\.maxLength beside format/],
    [{ format: "date", pattern: "a" }, /schema\.format beside pattern/],
    [{ type: "string", format: "uri" }, /schema\.format "uri" is not supported: date, time/],
    [{ type: "number", minimum: 1e-12 }, /bounds of numbers/],
  ] as const)
    assert.throws(() => compileSchema(JSON.stringify(schema)), what, JSON.stringify(schema));
  for (const pattern of ["(", "[z-a]", "a**"])
    assert.throws(() => compileSchema(JSON.stringify({ pattern })), /is no regular expression/, pattern);
  assert.throws(() => compileSchema(JSON.stringify({ pattern: "a".repeat(1_001) })), /at most 1000/);
  assert.throws(() => compileSchema(JSON.stringify({ pattern: "((a{900}){900}){900}" })), /more than 40000 nodes/);
  assert.throws(() => compileSchema(JSON.stringify({ type: "number", minimum: 2, maximum: 1 })), /cannot be met/);
});
