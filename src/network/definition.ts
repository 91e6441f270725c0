// Reads a network definition: YAML text in, checked plain data out. It knows the form of a definition, not
// what node types mean (catalogue/) nor how nodes connect (resolve.ts).

import { LineCounter, parseDocument } from "yaml";
import { bytesOfText } from "../core/bytes.ts";
import { DcnrError, fail, messageOf } from "../core/errors.ts";
import { parseId } from "../core/ids.ts";
import type { Shape } from "../core/tensor.ts";
import { didYouMean, quoted } from "./suggest.ts";

export type ConfigValue = string | number | boolean | readonly (string | number | boolean)[];

export interface Definition {
  readonly name: string;
  readonly precision: PrecisionKeys;
  readonly nodes: readonly DefinitionNode[];
  readonly edges: readonly DefinitionEdge[];
  readonly outputs: readonly DefinitionOutput[];
  readonly costs: readonly DefinitionOutput[];
  readonly metrics: readonly DefinitionMetric[];
  /** Notes of whoever wrote it; they change nothing that is computed. */
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface PrecisionKeys {
  readonly precision?: string;
  readonly param_precision?: string;
  readonly activation_precision?: string;
}

export interface DefinitionNode {
  readonly id: string;
  readonly type: string;
  readonly config: Readonly<Record<string, ConfigValue>>;
  readonly inputShapes?: readonly Shape[];
  readonly outputShapes?: readonly Shape[];
}

export interface DefinitionEdge {
  readonly from: string;
  readonly fromSlot: number;
  readonly to: string;
  readonly toSlot: number;
}

export interface DefinitionOutput {
  readonly name: string;
  readonly node: string;
  readonly slot: number;
}

export interface DefinitionMetric extends DefinitionOutput {
  readonly type: string;
}

/** Subgraphs of imported models are part of the text, weights never are. */
export const definitionBytesMax = 8 << 20;
/** Of lines, list items and brackets: YAML's parser takes some 15 us for each. The largest networks have half of it. */
const entriesMax = 600_000;
/** Brackets within brackets, which it takes the longer for the deeper they are. */
const depthMax = 500;
/** The yaml package expands aliases; more would let a small text fill memory. */
const aliasesMax = 200;
const nestingMax = 12;
/** Session ids begin with it and end with a hash. */
const nameLengthMax = 64;
const nodesMax = 20_000;
const edgesMax = 100_000;
const slotMax = 4_096;
const rankMax = 8;
const axisMax = 1 << 30;

type Plain = Record<string, unknown>;

export function parseDefinition(text: string): Definition {
  const root = record(parseYaml(text), "the definition");
  allowKeys(root, "the definition", [
    "name",
    "precision",
    "param_precision",
    "activation_precision",
    "nodes",
    "edges",
    "outputs",
    "costs",
    "metrics",
    "description",
    "version",
    "metadata",
  ]);
  const nodes = list(root.nodes, `"nodes"`, nodesMax);
  if (nodes.length === 0) fail("invalid_argument", `"nodes" is empty: a network needs at least one node`);
  return {
    name: plainName(root.name === undefined ? "" : text_(root.name, `"name"`)),
    precision: {
      ...optionalText(root, "precision", "the definition"),
      ...optionalText(root, "param_precision", "the definition"),
      ...optionalText(root, "activation_precision", "the definition"),
    },
    nodes: nodes.map(parseNode),
    edges: list(root.edges ?? [], `"edges"`, edgesMax).map(parseEdge),
    outputs: list(root.outputs ?? [], `"outputs"`, nodesMax).map((item, i) => parseOutput(item, `outputs[${i}]`, [])),
    costs: list(root.costs ?? [], `"costs"`, nodesMax).map((item, i) => parseOutput(item, `costs[${i}]`, [])),
    metrics: list(root.metrics ?? [], `"metrics"`, nodesMax).map(parseMetric),
    metadata: notes(root.metadata),
  };
}

/** A title like "T1 (decoder)" is welcome; ids are made from its plain characters. */
function plainName(title: string): string {
  const plain = title
    .replaceAll(/[^A-Za-z0-9_.-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "")
    .replace(/-+$/, "");
  return plain.slice(0, nameLengthMax) || "network";
}

function parseYaml(text: string): unknown {
  const bytes = bytesOfText(text).byteLength;
  if (bytes > definitionBytesMax)
    fail("invalid_argument", `the definition has ${bytes} bytes, at most ${definitionBytesMax} are allowed`);
  checkEntries(text);
  const lineCounter = new LineCounter();
  try {
    const document = parseDocument(text, { lineCounter, prettyErrors: true, stringKeys: true, logLevel: "silent" });
    const [problem] = document.errors;
    if (problem !== undefined) {
      const sentence = problem.message.split("\n", 1)[0]?.replace(/:$/, "");
      fail("invalid_argument", `the definition is not valid YAML: ${sentence}`);
    }
    const value = document.toJS({ maxAliasCount: aliasesMax });
    checkNesting(value, 0);
    return value;
  } catch (thrown) {
    if (thrown instanceof DcnrError) throw thrown;
    if (thrown instanceof RangeError) fail("invalid_argument", "the definition is nested too deeply");
    return fail("invalid_argument", `the definition is not valid YAML: ${messageOf(thrown).split("\n", 1)[0]}`);
  }
}

function checkNesting(value: unknown, depth: number): void {
  if (depth > nestingMax) fail("invalid_argument", `the definition is nested more than ${nestingMax} levels deep`);
  if (value === null || typeof value !== "object") return;
  for (const item of Object.values(value)) checkNesting(item, depth + 1);
}

function parseNode(item: unknown, index: number): DefinitionNode {
  const node = record(item, `nodes[${index}]`);
  const id = parseId<string>(text_(node.id, `nodes[${index}].id`), `nodes[${index}].id`);
  const where = `node ${quoted(id)}`;
  allowKeys(node, where, ["id", "type", "config", "input_shapes", "output_shapes", "description", "name"]);
  const told = Object.entries(record(node.config ?? {}, `${where}: config`)).filter(([, value]) => value != null);
  const config = Object.fromEntries(
    told.map(([key, value]) => [key, configValue(value, `${where}: config key ${quoted(key)}`)] as const),
  );
  return {
    id,
    type: text_(node.type, `${where}: type`),
    config,
    ...(node.input_shapes != null && { inputShapes: shapes(node.input_shapes, `${where}: input_shapes`) }),
    ...(node.output_shapes != null && { outputShapes: shapes(node.output_shapes, `${where}: output_shapes`) }),
  };
}

function configValue(value: unknown, where: string): ConfigValue {
  if (isScalar(value)) return value;
  if (Array.isArray(value) && value.every(isScalar)) return value;
  return fail("invalid_argument", `${where} must be a string, a number, true, false or a list of them`);
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

function parseEdge(item: unknown, index: number): DefinitionEdge {
  const where = `edges[${index}]`;
  const edge = record(item, where);
  allowKeys(edge, where, ["from", "from_slot", "to", "to_slot"]);
  return {
    from: text_(edge.from, `${where}.from`),
    fromSlot: slot(edge.from_slot, `${where}.from_slot`),
    to: text_(edge.to, `${where}.to`),
    toSlot: slot(edge.to_slot, `${where}.to_slot`),
  };
}

function parseOutput(item: unknown, where: string, more: readonly string[]): DefinitionOutput {
  const output = record(item, where);
  allowKeys(output, where, ["name", "node_id", "slot_id", ...more]);
  const node = text_(output.node_id, `${where}.node_id`);
  return {
    name: output.name === undefined ? node : text_(output.name, `${where}.name`),
    node,
    slot: slot(output.slot_id, `${where}.slot_id`),
  };
}

function parseMetric(item: unknown, index: number): DefinitionMetric {
  const where = `metrics[${index}]`;
  const output = parseOutput(item, where, ["type"]);
  return { ...output, type: text_((item as Plain).type, `${where}.type`) };
}

function record(value: unknown, where: string): Plain {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    fail("invalid_argument", `${where} must be a mapping of keys to values, found ${quoted(value)}`);
  return value as Plain;
}

/** Notes may be of any form; only a mapping can be looked things up in. */
function notes(value: unknown): Plain {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Plain) : {};
}

function list(value: unknown, where: string, lengthMax: number): unknown[] {
  if (!Array.isArray(value)) fail("invalid_argument", `${where} must be a list, found ${quoted(value)}`);
  if (value.length > lengthMax)
    fail("invalid_argument", `${where} has ${value.length} entries, at most ${lengthMax} are allowed`);
  return value;
}

function text_(value: unknown, where: string): string {
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  if (typeof value !== "string" || value === "")
    fail("invalid_argument", `${where} must be a name, found ${quoted(value)}`);
  return value;
}

function optionalText(from: Plain, key: string, where: string): Record<string, string> {
  return from[key] == null ? {} : { [key]: text_(from[key], `${where}: ${quoted(key)}`) };
}

function slot(value: unknown, where: string): number {
  const number = value === undefined || value === null ? 0 : Number(value);
  if (!Number.isInteger(number) || number < 0 || number > slotMax || typeof value === "boolean")
    fail("invalid_argument", `${where} must be a whole number from 0 to ${slotMax}, found ${quoted(value)}`);
  return number;
}

function shapes(value: unknown, where: string): Shape[] {
  return list(value, where, slotMax).map((item, i) => parseShape(item, `${where}[${i}]`));
}

/** A shape without the batch axis: a list, or text like "128,512", "[128, 512]" or "128x512". */
export function parseShape(value: unknown, where: string): Shape {
  const parts =
    typeof value === "string"
      ? value
          .trim()
          .replace(/^[[(]|[\])]$/g, "")
          .split(/[\s,x]+/)
          .filter((part) => part !== "")
      : typeof value === "number"
        ? [value]
        : list(value, where, rankMax);
  if (parts.length > rankMax)
    fail("invalid_argument", `${where} has ${parts.length} axes, at most ${rankMax} are allowed`);
  return parts.map((part) => {
    const size = Number(part);
    if (!Number.isInteger(size) || size < 1 || size > axisMax)
      fail("invalid_argument", `${where} must hold whole numbers from 1 to ${axisMax}, found ${quoted(part)}`);
    return size;
  });
}

function allowKeys(from: Plain, where: string, known: readonly string[]): void {
  for (const key of Object.keys(from)) {
    if (!known.includes(key))
      fail(
        "invalid_argument",
        `${where}: unknown key ${quoted(key)}${didYouMean(key, known) || `, known are ${known.join(", ")}`}`,
      );
  }
}

/** A look at the letters alone, before anybody reads what they mean. */
function checkEntries(text: string): void {
  let entries = 0;
  let depth = 0;
  for (const { 0: sign } of text.matchAll(/[,\n[\]{}]/g)) {
    entries++;
    if (sign === "[" || sign === "{") depth++;
    else if (sign === "]" || sign === "}") depth = Math.max(0, depth - 1);
    if (depth > depthMax) fail("invalid_argument", `the definition has brackets nested deeper than ${depthMax}`);
  }
  if (entries > entriesMax)
    fail("invalid_argument", `the definition has ${entries} lines and items, at most ${entriesMax} are allowed`);
}
