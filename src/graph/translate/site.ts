// One node of an ONNX file while it is put into operators of ours: its inputs, its attributes (an attribute that no
// translation reads is refused, never ignored), and the arithmetic that translations are written in.

import { fail } from "../../core/errors.ts";
import { allocate, type DType, float32, type Shape, type Tensor } from "../../core/tensor.ts";
import type { Attribute } from "../model.ts";
import type { OnnxNode } from "../onnx-parse.ts";
import { isFloat } from "../operators/check.ts";
import { onnxTypeOf } from "../operators/elements/cast.ts";
import type { Attributes, Builder, Value } from "../operators/operator.ts";

/** Gives the node's outputs, in order; those that nobody asks for may be missing. */
export type Translation = (site: Site) => Value | readonly (Value | undefined)[];

export type Translations = Readonly<Record<string, Translation>>;

/** Larger constants would be no masks and no tables but an attack on memory. */
const constantElementsMax = 1 << 22;
/** Of whole numbers in 64 bits, which take ten times as long: places and sizes, never masks. */
const wholeElementsMax = 1 << 19;

export class Site {
  readonly builder: Builder;
  readonly node: OnnxNode;
  readonly opset: number;
  readonly inputs: readonly (Value | undefined)[];
  /** The batch, where the file was written for one sample and is read for more. */
  readonly opened: number | undefined;
  readonly #read = new Set<string>();

  constructor(
    builder: Builder,
    node: OnnxNode,
    inputs: readonly (Value | undefined)[],
    { opset, opened }: { readonly opset: number; readonly opened?: number | undefined },
  ) {
    this.builder = builder;
    this.node = node;
    this.inputs = inputs;
    this.opset = opset;
    this.opened = opened;
  }

  get place(): string {
    return placeOf(this.node);
  }

  refuse(what: string): never {
    return fail("unimplemented", `${this.place}: ${what}`);
  }

  input(index: number): Value {
    return this.inputs[index] ?? fail("invalid_argument", `${this.place} lacks its input ${index}`);
  }

  /** The numbers of an input that must not depend on data; undefined where the node leaves it out. */
  known(index: number, what: string): number[] | undefined {
    const value = this.inputs[index];
    if (value === undefined) return undefined;
    if (value.constant === undefined) return this.refuse(`its ${what} must be known beforehand, not computed`);
    return Array.from(value.constant.data as Float32Array, Number);
  }

  attribute(name: string): Attribute | undefined {
    this.#read.add(name);
    return Object.hasOwn(this.node.attributes, name) ? this.node.attributes[name] : undefined;
  }

  number(name: string, otherwise: number): number {
    const value = this.attribute(name) ?? otherwise;
    return typeof value === "number" ? value : this.refuse(`its attribute "${name}" is no number`);
  }

  text(name: string, otherwise: string): string {
    const value = this.attribute(name) ?? otherwise;
    return typeof value === "string" ? value : this.refuse(`its attribute "${name}" is no text`);
  }

  numbers(name: string): readonly number[] | undefined {
    const value = this.attribute(name);
    if (value === undefined) return undefined;
    const isList = Array.isArray(value) && value.every((each) => typeof each === "number");
    return isList ? (value as readonly number[]) : this.refuse(`its attribute "${name}" is no list of numbers`);
  }

  texts(name: string): readonly string[] | undefined {
    const value = this.attribute(name);
    if (value === undefined) return undefined;
    const isList = Array.isArray(value) && value.every((each) => typeof each === "string");
    return isList ? (value as readonly string[]) : this.refuse(`its attribute "${name}" is no list of texts`);
  }

  /** Only `value` is supported: anything else is refused with what is. */
  only(name: string, value: number | string): void {
    const given = this.attribute(name) ?? value;
    if (given !== value)
      this.refuse(`${name} = ${JSON.stringify(given)} is not supported, only ${JSON.stringify(value)}`);
  }

  /** Attributes that carry no meaning here. */
  ignore(...names: readonly string[]): void {
    for (const name of names) this.#read.add(name);
  }

  /** Attributes that nothing read. */
  unread(): string[] {
    return Object.keys(this.node.attributes).filter((name) => !this.#read.has(name));
  }

  /** Fails where a constant of so many numbers would have to be made. */
  bounded(count: number): void {
    if (!(count <= constantElementsMax))
      this.refuse(`needs a constant of ${count} numbers, at most ${constantElementsMax}`);
  }

  /** An axis of `rank` counted from the front. */
  axis(axis: number, rank: number): number {
    if (!Number.isInteger(axis) || axis < -rank || axis >= Math.max(rank, 1))
      fail("invalid_argument", `${this.place}: axis ${axis} does not exist in ${rank} axes`);
    return axis < 0 ? axis + rank : axis;
  }

  op(type: string, inputs: readonly Value[], attributes: Attributes = {}): Value {
    return this.builder.op(type, inputs, attributes);
  }

  /** One number of the dtype of `like`. */
  scalar(value: number, like: DType = "float32"): Value {
    if (like === "float32") return this.builder.scalar(value);
    return this.builder.constant(tensorOf(like, [], [value]));
  }

  floats(shape: Shape, values: ArrayLike<number>): Value {
    return this.builder.constant(float32(shape, values));
  }

  /** 0, 1, .. below `count` along `axis` of `rank` axes. */
  positions(count: number, axis: number, rank: number, dtype: DType = "float32"): Value {
    const shape = Array.from({ length: rank }, (_, at) => (at === axis ? count : 1));
    return this.builder.constant(filledBy(dtype, shape, (i) => i));
  }

  add(a: Value, b: Value | number): Value {
    return this.op("Add", [a, this.#number(b, a)]);
  }

  sub(a: Value, b: Value | number): Value {
    return this.op("Sub", [a, this.#number(b, a)]);
  }

  mul(a: Value, b: Value | number): Value {
    return this.op("Mul", [a, this.#number(b, a)]);
  }

  div(a: Value, b: Value | number): Value {
    return this.op("Div", [a, this.#number(b, a)]);
  }

  greater(a: Value, b: Value | number): Value {
    return this.op("Greater", [a, this.#number(b, a)]);
  }

  less(a: Value, b: Value | number): Value {
    return this.op("Less", [a, this.#number(b, a)]);
  }

  where(condition: Value, a: Value | number, b: Value | number): Value {
    const like = typeof a === "object" ? a : typeof b === "object" ? b : undefined;
    const as = (value: Value | number) => (typeof value === "object" ? value : this.scalar(value, like?.dtype));
    return this.op("Where", [condition, as(a), as(b)]);
  }

  reshape(x: Value, shape: Shape): Value {
    return this.op("Reshape", [x], { shape });
  }

  transpose(x: Value, perm: readonly number[]): Value {
    return this.op("Transpose", [x], { perm });
  }

  cast(x: Value, to: DType): Value {
    return x.dtype === to ? x : this.op("Cast", [x], { to: onnxTypeOf(to) });
  }

  reduce(type: "Sum" | "Mean" | "Max", x: Value, axes: readonly number[], keepdims = 1): Value {
    return this.op(`Reduce${type}`, [x], { axes, keepdims });
  }

  slice(x: Value, axis: number, start: number, end: number): Value {
    if (start === 0 && end === x.shape[axis]) return x;
    return this.op("Slice", [x], { starts: [start], ends: [end], axes: [axis], steps: [1] });
  }

  /** x times a matrix along one axis: `matrix` has a row for every result. */
  along(x: Value, axis: number, rows: number, matrix: ArrayLike<number>): Value {
    const size = x.shape[axis] as number;
    const last = x.shape.length - 1;
    const swap = x.shape.map((_, at) => (at === axis ? last : at === last ? axis : at));
    const turned = axis === last ? x : this.transpose(x, swap);
    const columns = new Float32Array(size * rows);
    for (let row = 0; row < rows; row++)
      for (let i = 0; i < size; i++) columns[i * rows + row] = matrix[row * size + i] as number;
    const product = this.op("MatMul", [turned, this.floats([size, rows], columns)]);
    return axis === last ? product : this.transpose(product, swap);
  }

  #number(given: Value | number, like: Value): Value {
    return typeof given === "object" ? given : this.scalar(given, like.dtype);
  }

  isFloat(x: Value): boolean {
    return isFloat(x.dtype);
  }
}

export function placeOf(node: OnnxNode): string {
  return `ONNX node ${node.type} "${node.name || node.outputs[0]}"`;
}

export function tensorOf(dtype: DType, shape: Shape, values: ArrayLike<number>): Tensor {
  return filledBy(dtype, shape, (i) => values[i] as number);
}

/** The size is checked before anything is made. */
export function filledBy(dtype: DType, shape: Shape, valueAt: (index: number) => number): Tensor {
  const tensor = allocateBounded(dtype, shape);
  const { data } = tensor;
  for (let i = 0; i < data.length; i++)
    data[i] = (data instanceof BigInt64Array ? BigInt(Math.trunc(valueAt(i))) : valueAt(i)) as never;
  return tensor;
}

export function allocateBounded(dtype: DType, shape: Shape): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  const most = dtype === "int64" ? wholeElementsMax : constantElementsMax;
  if (shape.some((size) => !(Number.isSafeInteger(size) && size >= 0)) || count > most)
    fail(
      "resource_exhausted",
      `the ONNX model computes a constant of shape [${shape}]: at most ${most} elements are allowed`,
    );
  return allocate(dtype, shape);
}
