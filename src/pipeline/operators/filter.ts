// Keeps the rows for which an expression is true. The language is CEL: it has no loops of its own and no way out to the
// program, but its regular expressions may run for ever, so it is evaluated in a thread with a deadline.

import { Environment } from "@marcbachmann/cel-js";
import type { Work } from "../../core/aside.ts";
import { DcnrError, fail, hasCode, messageOf } from "../../core/errors.ts";
import { pipelineLane, putShard } from "../kit.ts";
import { needRows, type Operator } from "../operator.ts";
import { type Output, RecordWriter, type Row, recordsOf, rowOf } from "../records.ts";
import { eachShard } from "./each-shard.ts";

/** Of one shard of some megabytes; most take some milliseconds. */
const deadlineMs = 20_000;
const expressionCharactersMax = 10_000;

type Predicate = (row: Row) => boolean;

function compile(expression: string, where: string): Predicate {
  const environment = new Environment({ unlistedVariablesAreDyn: true, limits: { maxAstNodes: 5_000, maxDepth: 60 } });
  const parsed = parse();
  const { valid, type, error } = parsed.check();
  if (!valid) fail("invalid_argument", `${where}: the filter \`${shown(expression)}\` is wrong: ${firstLine(error)}`);
  if (type !== "bool" && type !== "dyn")
    fail("invalid_argument", `${where}: the filter \`${shown(expression)}\` gives ${type}, expected true or false`);
  return (row) => {
    // Without a prototype: names such as "constructor" are fields, or nothing.
    const answer: unknown = parsed(Object.assign(Object.create(null), row, { row }));
    if (typeof answer === "boolean") return answer;
    return fail(
      "invalid_argument",
      `it gives ${typeof answer === "object" ? "null or a list" : typeof answer}, expected true or false`,
    );
  };

  function parse() {
    try {
      return environment.parse(expression);
    } catch (thrown) {
      return fail(
        "invalid_argument",
        `${where}: the filter \`${shown(expression)}\` cannot be read: ${firstLine(thrown)}`,
      );
    }
  }
}

function shown(expression: string): string {
  return expression.length > 80 ? `${expression.slice(0, 80)}...` : expression;
}

function firstLine(thrown: unknown): string {
  return messageOf(thrown).split("\n", 1)[0] as string;
}

interface FilterInput {
  readonly expression: string;
  readonly where: string;
  readonly content: Uint8Array;
  /** Of the first row, for messages. */
  readonly first: number;
}

interface Kept {
  readonly content: Uint8Array;
  readonly count: number;
}

let remembered: { readonly expression: string; readonly keeps: Predicate } | undefined;

export const filtering: Work<FilterInput, Kept> = {
  lane: pipelineLane,
  module: import.meta.url,
  name: "filtering",
  what: "the filter",
  deadlineMs,
  run: ({ expression, where, content, first }) => {
    if (remembered?.expression !== expression) remembered = { expression, keeps: compile(expression, where) };
    const { keeps } = remembered;
    const kept = new RecordWriter();
    let row = first;
    for (const record of recordsOf(content)) {
      row++;
      try {
        if (keeps(rowOf(record))) kept.add(record);
      } catch (thrown) {
        fail(
          "invalid_argument",
          `${where}: the filter fails on row ${row}: ${firstLine(thrown)} (\`has(row.name)\` asks whether a row has a field)`,
        );
      }
    }
    return [kept.take()];
  },
};

export const filter: Operator = {
  name: "filter",
  version: 1,
  reads: "one",
  read(given, where) {
    if (typeof given !== "string" || given.trim() === "")
      fail("invalid_argument", `${where}: a filter is a CEL expression such as \`size(text) > 200\``);
    if (given.length > expressionCharactersMax)
      fail("invalid_argument", `${where}: a filter has at most ${expressionCharactersMax} characters`);
    compile(given, where);
    return { expression: given };
  },
  gives: (formats, _settings, _facts, where) => needRows(formats, where),
  run: ({ settings, inputs, kit, where }): Promise<Output> =>
    eachShard(inputs[0] as Output, kit, async (shard, first) => {
      const content = await kit.blobs.get(shard.hash);
      const input = { expression: settings["expression"] as string, where, content, first };
      const kept = await kit.aside(filtering, input).catch((thrown: unknown) => {
        throw tooLong(thrown, where);
      });
      return putShard(kit.blobs, kept.content, kept.count);
    }),
};

/** The thread's own sentence knows nothing of filters. */
function tooLong(thrown: unknown, where: string): unknown {
  if (!hasCode(thrown, "invalid_argument") || !messageOf(thrown).startsWith("reading ")) return thrown;
  return new DcnrError(
    "invalid_argument",
    `${where}: the filter took more than ${deadlineMs / 1_000} s or too much memory for some megabytes of rows: simplify it, above all its regular expressions`,
    { cause: thrown },
  );
}
