// Where a dataset comes from: the steps that made it, from sources to result, with what each was told and what it found. It stands
// beside the manifest, not in it: the same content is the same dataset, whatever was done to get it.

import { fail } from "../core/errors.ts";
import { canonicalJson } from "../core/hash.ts";
import { integer, type Json, list, onlyKeys, record, string } from "./json-checks.ts";
import { datasetBytes, type Manifest, unitsOf } from "./manifest.ts";

export interface LineageStep {
  readonly name: string;
  /** What it did: "files", "filter", "tokenise". */
  readonly operation: string;
  readonly settings: Json;
  /** Names of the steps that it read. */
  readonly inputs: readonly string[];
  /** What it found outside: files with their sizes, a dataset's hash, a model's identity. */
  readonly found: Json;
  /** What came out. */
  readonly records: number;
  readonly bytes: number;
}

export interface Lineage {
  readonly version: 1;
  /** The last of the steps is the dataset. */
  readonly steps: readonly LineageStep[];
}

/** Some hundred steps with all their settings. */
export const lineageBytesMax = 256 << 10;
const stepsMax = 1_000;

export function lineageText(lineage: Lineage): string {
  return canonicalJson(lineage);
}

/** Reads a lineage from anywhere. */
export function parseLineage(text: string): Lineage {
  if (text.length > lineageBytesMax)
    fail("resource_exhausted", `the lineage has ${text.length} characters, at most ${lineageBytesMax} are allowed`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    fail("invalid_argument", `the lineage is not JSON: ${(thrown as Error).message}`, thrown);
  }
  const json = record(value, "the lineage");
  onlyKeys(json, ["version", "steps"], "the lineage");
  if (json["version"] !== 1) fail("invalid_argument", "the lineage has a version that this program does not read");
  const steps = list(json["steps"], "steps of the lineage", stepsMax).map((step, i) => readStep(step, `steps[${i}]`));
  if (steps.length === 0) fail("invalid_argument", "the lineage has no steps");
  return { version: 1, steps };
}

function readStep(value: unknown, what: string): LineageStep {
  const json = record(value, what);
  onlyKeys(json, ["name", "operation", "settings", "inputs", "found", "records", "bytes"], what);
  return {
    name: string(json["name"], `${what}.name`),
    operation: string(json["operation"], `${what}.operation`),
    settings: record(json["settings"], `${what}.settings`),
    inputs: list(json["inputs"], `${what}.inputs`, stepsMax).map((one) => string(one, `${what}.inputs`)),
    found: record(json["found"], `${what}.found`),
    records: integer(json["records"], `${what}.records`, 0, Number.MAX_SAFE_INTEGER),
    bytes: integer(json["bytes"], `${what}.bytes`, 0, Number.MAX_SAFE_INTEGER),
  };
}

/** Of a dataset that one operation made, of a source or of another dataset. */
export function lineageOf(
  operation: string,
  settings: Json,
  made: Manifest,
  from?: { name: string; hash: string; manifest: Manifest },
): Lineage {
  const sizes = (manifest: Manifest) => ({ records: unitsOf(manifest), bytes: datasetBytes(manifest) });
  const step = { name: operation, operation, settings, found: {}, ...sizes(made) };
  if (!from) return { version: 1, steps: [{ ...step, inputs: [] }] };
  const source = {
    name: from.name,
    operation: "dataset",
    settings: { name: from.name },
    inputs: [],
    found: { dataset: from.hash },
    ...sizes(from.manifest),
  };
  return { version: 1, steps: [source, { ...step, inputs: [from.name] }] };
}
