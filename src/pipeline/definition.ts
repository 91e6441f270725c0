// A pipeline as people write it: steps by name, each with one operator and what it reads, and which of them become datasets. Read
// and checked as a whole before anything runs.

import { fail } from "../core/errors.ts";
import { parseId } from "../core/ids.ts";
import type { Operator, Settings } from "./operator.ts";
import { dataset } from "./operators/dataset.ts";
import { decode } from "./operators/decode.ts";
import { deduplicate } from "./operators/deduplicate.ts";
import { files } from "./operators/files.ts";
import { filter } from "./operators/filter.ts";
import { map } from "./operators/map.ts";
import { mix } from "./operators/mix.ts";
import { pack } from "./operators/pack.ts";
import { shuffle } from "./operators/shuffle.ts";
import { split } from "./operators/split.ts";
import { tokenise } from "./operators/tokenise.ts";

const operators: readonly Operator[] = [
  files,
  dataset,
  decode,
  filter,
  deduplicate,
  mix,
  shuffle,
  split,
  tokenise,
  pack,
  map,
];
const byName: ReadonlyMap<string, Operator> = new Map([
  ...operators.map((operator): [string, Operator] => [operator.name, operator]),
  ["tokenize", tokenise],
]);

export interface StepDefinition {
  readonly name: string;
  readonly operator: Operator;
  readonly settings: Settings;
  /** Names of the steps that it reads. */
  readonly inputs: readonly string[];
  /** For messages. */
  readonly where: string;
}

export interface Pipeline {
  /** Those that are needed, each behind what it reads. */
  readonly steps: readonly StepDefinition[];
  /** Datasets by their names: the step that each is made of. */
  readonly save: ReadonlyMap<string, string>;
  /** Files of JSON lines by their paths. */
  readonly write: ReadonlyMap<string, string>;
}

const stepsMax = 200;

export function readPipeline(given: unknown, path: string): Pipeline {
  const whole = fieldsOf(given, path);
  const odd = Object.keys(whole).find((name) => !["steps", "save", "write"].includes(name));
  if (odd !== undefined)
    fail("invalid_argument", `${path} has no field "${odd.slice(0, 60)}": there are steps, save, write`);
  const written = Object.entries(fieldsOf(whole["steps"] ?? {}, `${path}: \`steps\``));
  if (written.length === 0) fail("invalid_argument", `${path} has no steps: name at least one under \`steps\``);
  if (written.length > stepsMax)
    fail("resource_exhausted", `${path} has ${written.length} steps, at most ${stepsMax} are allowed`);
  const steps = new Map(written.map(([name, step]) => [name, readStep(name, step, path)]));
  const save = targets(whole["save"], "save", steps, path);
  const write = targets(whole["write"], "write", steps, path);
  if (save.size + write.size === 0)
    fail("invalid_argument", `${path} saves nothing: say \`save: {DATASET: STEP}\` or \`write: {FILE.jsonl: STEP}\``);
  for (const name of save.keys()) parseId(name, "the dataset's name");
  for (const { where, inputs } of steps.values())
    for (const input of inputs)
      if (!steps.has(input))
        fail(
          "invalid_argument",
          `${where} reads "${input}", and there is no such step: there are ${[...steps.keys()].join(", ")}`,
        );
  const needed = inOrder(steps, [...steps.keys()], path);
  const wanted = reached(steps, [...save.values(), ...write.values()]);
  return { steps: needed.filter(({ name }) => wanted.has(name)), save, write };
}

function readStep(name: string, given: unknown, path: string): StepDefinition {
  parseId(name, "a step's name");
  const where = `step ${name}`;
  const fields = fieldsOf(given, `${path}: ${where}`);
  const kinds = Object.keys(fields).filter((key) => key !== "from");
  const [kind] = kinds;
  const known = operators.map((one) => one.name).join(", ");
  if (kind === undefined) fail("invalid_argument", `${path}: ${where} does nothing: give it one of ${known}`);
  const unknown = kinds.find((key) => !byName.has(key));
  if (unknown !== undefined)
    fail(
      "invalid_argument",
      `${path}: ${where}: there is no step of the kind "${unknown.slice(0, 60)}": choose from ${known}`,
    );
  if (kinds.length > 1)
    fail("invalid_argument", `${path}: ${where} does ${kinds.join(" and ")}: make them steps of their own`);
  const operator = byName.get(kind) as Operator;
  const settings = operator.read(fields[kind], where);
  return { name, operator, settings, inputs: inputsOf(operator, settings, fields["from"], where), where };
}

function inputsOf(
  { reads, name, namesOf }: Operator,
  settings: Settings,
  from: unknown,
  where: string,
): readonly string[] {
  if (reads !== "one") {
    if (from !== undefined) fail("invalid_argument", `${where}: ${name} takes no \`from\``);
    return namesOf?.(settings) ?? [];
  }
  if (typeof from !== "string") fail("invalid_argument", `${where} needs \`from\`: the name of the step that it reads`);
  return [from];
}

function targets(
  given: unknown,
  what: string,
  steps: ReadonlyMap<string, StepDefinition>,
  path: string,
): Map<string, string> {
  const entries = Object.entries(given === undefined ? {} : fieldsOf(given, `${path}: \`${what}\``));
  return new Map(
    entries.map(([target, step]) => {
      if (typeof step !== "string" || !steps.has(step))
        fail(
          "invalid_argument",
          `${path}: ${what} ${target} names ${JSON.stringify(step)}, and there is no such step: there are ${[...steps.keys()].join(", ")}`,
        );
      return [target, step];
    }),
  );
}

/** Each step behind those that it reads; a circle is told by its steps. */
function inOrder(steps: ReadonlyMap<string, StepDefinition>, names: readonly string[], path: string): StepDefinition[] {
  const ordered = new Map<string, StepDefinition>();
  const under: string[] = [];
  const visit = (name: string): void => {
    if (ordered.has(name)) return;
    if (under.includes(name))
      fail(
        "invalid_argument",
        `${path}: steps read each other in a circle: ${[...under.slice(under.indexOf(name)), name].join(" reads ")}`,
      );
    const step = steps.get(name) as StepDefinition;
    under.push(name);
    for (const input of step.inputs) visit(input);
    under.pop();
    ordered.set(name, step);
  };
  for (const name of names) visit(name);
  return [...ordered.values()];
}

function reached(steps: ReadonlyMap<string, StepDefinition>, from: readonly string[]): Set<string> {
  const found = new Set<string>();
  const visit = (name: string): void => {
    if (found.has(name)) return;
    found.add(name);
    for (const input of steps.get(name)?.inputs ?? []) visit(input);
  };
  for (const name of from) visit(name);
  return found;
}

function fieldsOf(given: unknown, where: string): Readonly<Record<string, unknown>> {
  if (given !== null && typeof given === "object" && !Array.isArray(given))
    return given as Readonly<Record<string, unknown>>;
  return fail("invalid_argument", `${where} must be lines of \`name: value\``);
}
