// The configuration of a node: what keys it may have, and reading them from text with errors that name
// node, key and expectation.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";
import type { Shape } from "../../core/tensor.ts";
import { type ConfigValue, parseShape } from "../definition.ts";
import { didYouMean, quoted } from "../suggest.ts";

interface KeyBase {
  readonly meaning: string;
  /** Without a value and without a default the key is inferred from the shapes. */
  readonly required?: boolean;
  readonly aliases?: readonly string[];
}

export type KeySpec = KeyBase &
  (
    | { readonly kind: "integer"; readonly min: number; readonly max: number; readonly default?: number }
    | {
        readonly kind: "number";
        readonly min: number;
        readonly max: number;
        /** The largest value itself is not allowed. */
        readonly below?: boolean;
        readonly default?: number;
      }
    | { readonly kind: "flag"; readonly default?: boolean }
    | { readonly kind: "choice"; readonly choices: readonly string[]; readonly default?: string }
    | { readonly kind: "text"; readonly default?: string }
    | { readonly kind: "shape"; readonly free?: boolean; readonly default?: string }
    | { readonly kind: "numbers"; readonly min: number; readonly max: number; readonly default?: undefined }
  );

export type KeySpecs = Readonly<Record<string, KeySpec>>;

/** Dimensions above this would not fit any machine's memory, and their products no safe integer. */
export const dimensionMax = 1 << 24;

/** Longer lists are no configuration but data. */
const listMax = 4_096;

export function dimension(meaning: string, more: { required?: boolean; default?: number } = {}): KeySpec {
  return { kind: "integer", min: 1, max: dimensionMax, meaning, ...more };
}

const precisions = ["float32", "fp32", "float16", "fp16", "bfloat16", "bf16"];

/** Keys that every node knows. */
export const commonKeys: KeySpecs = {
  optimizer: { kind: "choice", choices: ["adam", "adamw", "sgd"], default: "adam", meaning: "how the weights learn" },
  beta1: { kind: "number", min: 0, max: 1, below: true, default: 0.9, meaning: "adam: decay of the first moment" },
  beta2: { kind: "number", min: 0, max: 1, below: true, default: 0.999, meaning: "adam: decay of the second moment" },
  adam_epsilon: { kind: "number", min: 0, max: 1, default: 1e-8, meaning: "adam: added to the denominator" },
  weight_decay: { kind: "number", min: 0, max: 10, meaning: "0.01 for adamw, else 0; matrices only" },
  momentum: { kind: "number", min: 0, max: 1, below: true, default: 0, meaning: "sgd: share of the last update kept" },
  precision: { kind: "choice", choices: precisions, meaning: "of weights and activations; else the network's" },
  param_precision: { kind: "choice", choices: precisions, meaning: "of the weights' working copy" },
  activation_precision: {
    kind: "choice",
    choices: [...precisions, "int8"],
    meaning: "in which outputs leave the VNode, and their gradients come back; int8 has a scale for each row",
  },
  frozen: { kind: "flag", meaning: "its weights do not learn (adapters of them do)" },
  colocate_group: { kind: "text", meaning: "nodes of one group share a PNode, and are fused where possible" },
  colocate_policy: {
    kind: "choice",
    choices: ["required", "preferred"],
    default: "required",
    meaning: "only `required` groups are fused and kept together",
  },
  shared_weight_alias: { kind: "text", meaning: "publishes this node's weight matrix under a name" },
  tie_weight_alias: { kind: "text", meaning: "uses the weight matrix published under that name" },
  input_shape: {
    kind: "shape",
    meaning: "shape of input 0, without the batch; checked, or taken where no edge leads in",
  },
  output_shape: { kind: "shape", meaning: "shape of output 0, without the batch; checked" },
  dim: dimension("size of the last axis; checked"),
  seq_len: dimension("size of the first axis; checked"),
  in_dim: dimension("size of the last axis of input 0; checked"),
  out_dim: dimension("size of the last axis of output 0; checked"),
};

/** A node's configuration, read and within range. */
export class Config {
  readonly #values: ReadonlyMap<string, number | string | boolean | Shape>;
  readonly node: string;

  constructor(node: string, values: ReadonlyMap<string, number | string | boolean | Shape>) {
    this.node = node;
    this.#values = values;
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  number(key: string): number {
    const value = this.#values.get(key);
    assert(typeof value === "number", `node ${this.node}: key ${key} is a number`);
    return value;
  }

  optionalNumber(key: string): number | undefined {
    return this.has(key) ? this.number(key) : undefined;
  }

  flag(key: string): boolean {
    const value = this.#values.get(key);
    assert(typeof value === "boolean", `node ${this.node}: key ${key} is a flag`);
    return value;
  }

  text(key: string): string {
    const value = this.#values.get(key);
    assert(typeof value === "string", `node ${this.node}: key ${key} is text`);
    return value;
  }

  optionalText(key: string): string | undefined {
    return this.has(key) ? this.text(key) : undefined;
  }

  shape(key: string): Shape | undefined {
    const value = this.#values.get(key);
    assert(value === undefined || Array.isArray(value), `node ${this.node}: key ${key} is a shape`);
    return value as Shape | undefined;
  }

  /** A list of numbers; empty where the key is not given. */
  numbers(key: string): readonly number[] {
    const value = this.#values.get(key) ?? [];
    assert(Array.isArray(value), `node ${this.node}: key ${key} is a list`);
    return value;
  }

  with(changes: Readonly<Record<string, number | string | boolean | Shape>>): Config {
    return new Config(this.node, new Map([...this.#values, ...Object.entries(changes)]));
  }

  /** What its constructor takes, as plain data. */
  entries(): ConstructorParameters<typeof Config> {
    return [this.node, this.#values];
  }

  /** Equal text means that two nodes behave alike. Keys are in the order of their specification. */
  canonical(except: readonly string[] = []): string {
    return JSON.stringify([...this.#values].filter(([key]) => !except.includes(key)));
  }
}

export function readConfig(node: string, specs: KeySpecs, given: Readonly<Record<string, ConfigValue>>): Config {
  const names = new Map<string, string>();
  for (const [key, spec] of Object.entries(specs)) {
    names.set(key, key);
    for (const alias of spec.aliases ?? []) names.set(alias, key);
  }
  const byKey = new Map<string, ConfigValue>();
  for (const [key, value] of Object.entries(given)) {
    const name = names.get(key);
    if (name === undefined)
      fail("invalid_argument", `node "${node}": unknown key ${quoted(key)}${suggestion(key, specs)}`);
    if (byKey.has(name)) fail("invalid_argument", `node "${node}": key "${key}" says again what "${name}" says`);
    byKey.set(name, value);
  }
  const values = new Map<string, number | string | boolean | Shape>();
  for (const [key, spec] of Object.entries(specs)) {
    const value = byKey.get(key);
    const where = `node "${node}": key "${key}"`;
    if (value !== undefined && value !== "") values.set(key, readValue(spec, value, where));
    else if (spec.default !== undefined)
      values.set(key, spec.kind === "shape" ? readShape(spec.default, where, true) : spec.default);
    else if (spec.required)
      fail("invalid_argument", `${where} is missing: it must be ${expectation(spec)} (${spec.meaning})`);
  }
  return new Config(node, values);
}

function suggestion(key: string, specs: KeySpecs): string {
  const own = Object.keys(specs).filter((name) => !(name in commonKeys));
  return (
    didYouMean(key, Object.keys(specs)) ||
    (own.length > 0 ? `; this type has ${own.join(", ")}` : "; this type has no keys of its own")
  );
}

export function expectation(spec: KeySpec): string {
  switch (spec.kind) {
    case "integer":
      return `a whole number from ${spec.min} to ${spec.max}`;
    case "number":
      return spec.below ? `a number from ${spec.min} to below ${spec.max}` : `a number from ${spec.min} to ${spec.max}`;
    case "flag":
      return "true or false";
    case "choice":
      return `one of ${spec.choices.join(", ")}`;
    case "text":
      return "text";
    case "shape":
      return 'a shape like "128,512"';
    case "numbers":
      return `a list of numbers from ${spec.min} to ${spec.max}`;
  }
}

function readValue(spec: KeySpec, value: ConfigValue, where: string): number | string | boolean | Shape {
  const refuse = () => fail("invalid_argument", `${where} must be ${expectation(spec)}, found ${quoted(value)}`);
  switch (spec.kind) {
    case "integer":
    case "number": {
      const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
      if (typeof number !== "number" || !Number.isFinite(number)) return refuse();
      if (spec.kind === "integer" && !Number.isInteger(number)) return refuse();
      if (number < spec.min || number > spec.max) return refuse();
      if (spec.kind === "number" && spec.below && number === spec.max) return refuse();
      return number;
    }
    case "flag": {
      const text = String(value).trim().toLowerCase();
      if (["true", "1", "yes", "on"].includes(text)) return true;
      if (["false", "0", "no", "off"].includes(text)) return false;
      return refuse();
    }
    case "choice": {
      const text = String(value).trim().toLowerCase();
      if (spec.choices.includes(text)) return text;
      return fail(
        "invalid_argument",
        `${where} must be ${expectation(spec)}, found ${quoted(value)}${didYouMean(text, spec.choices)}`,
      );
    }
    case "text":
      return Array.isArray(value) ? refuse() : String(value);
    case "shape":
      return readShape(value, where, spec.free ?? false);
    case "numbers": {
      const list = Array.isArray(value) ? value.map(Number) : [Number.NaN];
      const valid = list.length <= listMax && list.every((number) => number >= spec.min && number <= spec.max);
      return valid ? list : refuse();
    }
  }
}

/** `free` lets one axis be -1: whatever is left. */
function readShape(value: ConfigValue, where: string, free: boolean): Shape {
  if (!free) return parseShape(value, where);
  const text = Array.isArray(value) ? value.join(",") : String(value);
  const parts = text
    .replace(/[[\]()]/g, "")
    .split(/[\s,x]+/)
    .filter((part) => part !== "");
  const sizes = parts.map(Number);
  const valid = sizes.every((size) => Number.isInteger(size) && (size === -1 || (size >= 1 && size <= dimensionMax)));
  if (!valid || sizes.length > 8 || sizes.filter((size) => size === -1).length > 1)
    fail("invalid_argument", `${where} must be a shape like "128,512" with at most one -1, found ${quoted(value)}`);
  return sizes;
}
