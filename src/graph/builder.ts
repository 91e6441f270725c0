// Builds graphs node by node, with every shape known at once. Equal nodes are made once, reshapes of reshapes
// fall together and small constants are computed, so that what is built needs little cleaning afterwards.

import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import {
  allocate,
  bytesOf,
  type DType,
  elementCount,
  float32,
  type Shape,
  sameShape,
  type Tensor,
} from "../core/tensor.ts";
import { extract } from "./extract.ts";
import type { GraphModel, GraphNode } from "./model.ts";
import { numbersOf } from "./operators/check.ts";
import type { Attributes, Builder, Value } from "./operators/operator.ts";
import { operatorOf } from "./operators/registry.ts";

export type { Value } from "./operators/operator.ts";

/** Folding larger results would trade a little time for a lot of file. */
const foldedElementsMax = 1 << 20;

export interface BuilderOptions {
  readonly lowering?: boolean;
  readonly composites?: ReadonlySet<string>;
  readonly folding?: "small" | "all";
}

export class GraphBuilder implements Builder {
  readonly name: string;
  readonly nodes: GraphNode[] = [];
  readonly constants = new Map<string, Tensor>();
  readonly inputs: Value[] = [];
  /** Composites are replaced by ONNX operators as they are added. */
  readonly lowering: boolean;
  /** All but these. */
  readonly #composites: ReadonlySet<string>;
  /** "all": whatever is known is computed, so that reading for two batch sizes folds the same places. */
  readonly folding: "small" | "all";
  readonly #outputs: { value: Value; name: string }[] = [];
  readonly #known = new Map<string, Value[]>();
  readonly #producers = new Map<string, GraphNode>();
  readonly #values = new Map<string, Value>();
  readonly #counters = new Map<string, number>();
  /** Named float constants: never folded into others. */
  readonly #keptWhole = new Set<string>();

  constructor(name: string, options: BuilderOptions = {}) {
    this.name = name;
    this.lowering = options.lowering ?? false;
    this.#composites = options.composites ?? new Set();
    this.folding = options.folding ?? "small";
  }

  input(name: string, dtype: DType, shape: Shape): Value {
    if (this.#values.has(name)) fail("already_exists", `graph ${this.name} already has a value named "${name}"`);
    const value = { name, dtype, shape: [...shape] };
    this.inputs.push(value);
    this.#values.set(name, value);
    return value;
  }

  /** Unnamed constants of equal content are one; a name makes a constant its own, since it may become a parameter. */
  constant(tensor: Tensor, name?: string): Value {
    const key = `constant|${tensor.dtype}|${tensor.shape}|${name === undefined ? sha256(bytesOf(tensor)) : `named ${name}`}`;
    const known = this.#known.get(key)?.[0];
    if (known) return known;
    const fresh = this.#freshName(name ?? "constant");
    const value = { name: fresh, dtype: tensor.dtype, shape: tensor.shape, constant: tensor };
    if (name !== undefined && tensor.dtype === "float32" && tensor.shape.length > 0) this.#keptWhole.add(fresh);
    this.constants.set(fresh, tensor);
    this.#values.set(fresh, value);
    this.#known.set(key, [value]);
    return value;
  }

  scalar(value: number): Value {
    return this.constant(float32([], [value]));
  }

  op(type: string, inputs: readonly Value[], attributes: Attributes = {}): Value {
    return this.ops(type, inputs, attributes, 1)[0] as Value;
  }

  ops(type: string, inputs: readonly Value[], attributes: Attributes, outputCount: number): Value[] {
    const operator = operatorOf(type);
    const results = operator.infer(inputs, attributes).slice(0, outputCount);
    if (results.length !== outputCount)
      fail("invalid_argument", `${type} has ${results.length} outputs here, ${outputCount} were asked for`);
    const simpler = this.#simplify(type, inputs, attributes, results[0]?.shape as Shape);
    if (simpler) return [simpler];
    if (this.lowering && operator.lower && !this.#composites.has(type)) return operator.lower(this, inputs, attributes);
    const given = type === "Reshape" ? { shape: results[0]?.shape as Shape } : attributes;
    const key = `${type}|${outputCount}|${inputs.map((input) => input.name).join("|")}|${attributeKey(given)}`;
    const known = this.#known.get(key);
    if (known) return known;
    const folded = this.#fold(type, inputs, given, results);
    const outputs = folded ?? this.#append(type, inputs, given, results);
    this.#known.set(key, outputs);
    return outputs;
  }

  output(value: Value, name: string): void {
    if (this.#outputs.some((output) => output.name === name))
      fail("already_exists", `graph ${this.name} already has an output named "${name}"`);
    this.#outputs.push({ value, name });
  }

  build(): GraphModel {
    const { name, inputs, nodes, constants } = this;
    return extract({ name, inputs, outputs: this.#outputs, nodes, constants });
  }

  /**
   * Adds the nodes of `model`; `given` stands for its inputs, which are otherwise added as inputs here. What `instead` gives takes the place of
   * a node's only output.
   */
  replay(
    model: GraphModel,
    given: ReadonlyMap<string, Value> = new Map(),
    instead: (
      node: GraphNode,
      inputs: readonly Value[],
      values: ReadonlyMap<string, Value>,
    ) => Value | undefined = () => undefined,
  ): Map<string, Value> {
    const values = new Map<string, Value>();
    for (const { name, dtype, shape } of model.inputs)
      values.set(name, given.get(name) ?? this.input(name, dtype, shape));
    for (const [name, tensor] of Object.entries(model.constants))
      values.set(name, this.constant(tensor, unnamed.test(name) ? undefined : name));
    for (const node of model.nodes) {
      const inputs = node.inputs.map(
        (name) =>
          values.get(name) ??
          fail("invalid_argument", `graph ${model.name}: node ${node.name} uses "${name}" before it is computed`),
      );
      // An Identity inside a graph only carries a name; outputs get theirs when the graph is built.
      const other = instead(node, inputs, values);
      const outputs = other
        ? [other]
        : node.op === "Identity"
          ? inputs
          : this.ops(node.op, inputs, node.attributes, node.outputs.length);
      for (const [i, name] of node.outputs.entries()) values.set(name, outputs[i] as Value);
    }
    return values;
  }

  producerOf(value: Value): GraphNode | undefined {
    return this.#producers.get(value.name);
  }

  valueOf(name: string): Value {
    return this.#values.get(name) ?? fail("not_found", `graph ${this.name} has no value named "${name}"`);
  }

  #append(
    type: string,
    inputs: readonly Value[],
    attributes: Attributes,
    results: { dtype: DType; shape: Shape }[],
  ): Value[] {
    const name = this.#freshName(type);
    const outputs = results.map(({ dtype, shape }, i) => ({ name: i === 0 ? name : `${name}.${i}`, dtype, shape }));
    const node: GraphNode = {
      op: type,
      name,
      inputs: inputs.map((input) => input.name),
      outputs: outputs.map((output) => output.name),
      attributes,
    };
    this.nodes.push(node);
    for (const output of outputs) {
      this.#values.set(output.name, output);
      this.#producers.set(output.name, node);
    }
    return outputs;
  }

  /** A value that the node would only repeat under another name, if there is one. */
  #simplify(type: string, inputs: readonly Value[], attributes: Attributes, shape: Shape): Value | undefined {
    const [x, y] = inputs as [Value, Value?];
    if (type === "Reshape") {
      if (sameShape(x.shape, shape)) return x;
      const inner = this.#producers.get(x.name);
      if (inner?.op === "Reshape") return this.op("Reshape", [this.valueOf(inner.inputs[0] as string)], { shape });
    }
    if (type === "Expand" && sameShape(x.shape, shape)) return x;
    if (type === "Transpose") return this.#simplifyTranspose(x, numbersOf(attributes, "perm"));
    if ((type === "Mul" || type === "Div") && isScalar(y, 1) && sameShape(x.shape, shape)) return x;
    if (type === "Concat" && inputs.length === 1) return x;
    return undefined;
  }

  #simplifyTranspose(x: Value, perm: readonly number[] | undefined): Value | undefined {
    if (perm === undefined) return undefined;
    if (perm.every((axis, i) => axis === i)) return x;
    // Moving axes of size 1 moves no data.
    const order = perm.filter((axis) => x.shape[axis] !== 1);
    if (order.every((axis, i) => i === 0 || axis > (order[i - 1] as number)))
      return this.op("Reshape", [x], { shape: perm.map((axis) => x.shape[axis] as number) });
    const inner = this.#producers.get(x.name);
    const before = inner?.op === "Transpose" ? numbersOf(inner.attributes, "perm") : undefined;
    if (inner === undefined || before === undefined) return undefined;
    const source = this.valueOf(inner.inputs[0] as string);
    return this.op("Transpose", [source], { perm: perm.map((axis) => before[axis] as number) });
  }

  #fold(
    type: string,
    inputs: readonly Value[],
    attributes: Attributes,
    results: { dtype: DType; shape: Shape }[],
  ): Value[] | undefined {
    const tensors = inputs.map((input) => input.constant);
    if (inputs.some((input) => this.#keptWhole.has(input.name))) return undefined;
    if (tensors.length === 0 || !tensors.every((tensor) => tensor !== undefined)) return undefined;
    const size = results.reduce((sum, { shape }) => sum + elementCount(shape), 0);
    const given = tensors.reduce((sum, tensor) => sum + elementCount((tensor as Tensor).shape), 0);
    const worthwhile = this.folding === "all" ? foldedElementsMax : Math.max(given, 64);
    if (size > Math.min(foldedElementsMax, worthwhile)) return undefined;
    const outputs = results.map(({ dtype, shape }) => allocate(dtype, shape));
    const infos = results.map(({ dtype, shape }, i) => ({ name: String(i), dtype, shape }));
    const kernel = operatorOf(type).plan(inputs, infos, attributes);
    kernel(
      tensors.map((tensor) => (tensor as Tensor).data),
      outputs.map((tensor) => tensor.data),
    );
    return outputs.map((tensor) => this.constant(tensor));
  }

  /** The first free one of `base`, `base:1`, `base:2`, .. Names given by people hold no colon. */
  #freshName(base: string): string {
    const first = this.#values.has(base) || this.#counters.has(base) || operatorNames.test(base);
    if (!first) return base;
    let count = this.#counters.get(base) ?? 0;
    let name: string;
    do name = `${base}:${++count}`;
    while (this.#values.has(name));
    this.#counters.set(base, count);
    return name;
  }
}

/** Operator types and unnamed constants are always numbered. */
const operatorNames = /^(constant|[A-Z][A-Za-z]*)$/;

/** Names that the builder gave to constants. */
const unnamed = /^constant:\d+$/;

function isScalar(value: Value | undefined, expected: number): boolean {
  return value?.constant !== undefined && value.shape.length === 0 && Number(value.constant.data[0]) === expected;
}

function attributeKey(attributes: Attributes): string {
  return JSON.stringify(Object.entries(attributes).sort(([a], [b]) => (a < b ? -1 : 1)));
}
