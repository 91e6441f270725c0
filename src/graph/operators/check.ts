// Checks that shape rules share. Each failure is a sentence that names the operator and what it was given.

import { fail } from "../../core/errors.ts";
import { type DType, elementCount, type Shape } from "../../core/tensor.ts";
import type { Attributes, Value } from "./operator.ts";

export function describe(values: readonly Value[]): string {
  return values.map((value) => `${value.dtype}[${value.shape.join(",")}]`).join(", ");
}

export function refuse(type: string, inputs: readonly Value[], expectation: string): never {
  fail("invalid_argument", `${type}(${describe(inputs)}): ${expectation}`);
}

/** Between `min` and `max` inputs, all present. */
export function checkArity(type: string, inputs: readonly Value[], min: number, max: number = min): void {
  if (inputs.length < min || inputs.length > max)
    refuse(type, inputs, `takes ${min === max ? min : `${min} to ${max}`} inputs, got ${inputs.length}`);
}

export function isFloat(dtype: DType): boolean {
  return dtype === "float32" || dtype === "float64";
}

export function checkFloat(type: string, inputs: readonly Value[]): void {
  if (!inputs.every((value) => isFloat(value.dtype))) refuse(type, inputs, "takes floating-point inputs");
}

export function checkRank(type: string, inputs: readonly Value[], index: number, min: number, max = min): void {
  const rank = (inputs[index] as Value).shape.length;
  if (rank < min || rank > max)
    refuse(type, inputs, `input ${index} needs ${min === max ? min : `${min} to ${max}`} axes, it has ${rank}`);
}

/** `axis` counted from the front; negative ones count from the end. */
export function resolveAxis(type: string, inputs: readonly Value[], axis: number, rank: number): number {
  if (!Number.isInteger(axis) || axis < -rank || axis >= Math.max(rank, 1))
    refuse(type, inputs, `axis ${axis} does not exist in ${rank} axes`);
  return axis < 0 ? axis + rank : axis;
}

export function numberOf(attributes: Attributes, name: string, otherwise: number): number {
  const value = attributes[name];
  return typeof value === "number" ? value : otherwise;
}

export function stringOf(attributes: Attributes, name: string, otherwise: string): string {
  const value = attributes[name];
  return typeof value === "string" ? value : otherwise;
}

export function numbersOf(attributes: Attributes, name: string): readonly number[] | undefined {
  const value = attributes[name];
  return Array.isArray(value) ? (value as readonly number[]) : undefined;
}

/** An index counted from the front; fails outside of 0..size - 1. Kernels call it, so it allocates nothing. */
export function indexWithin(type: string, given: number, size: number): number {
  const index = given < 0 ? given + size : given;
  if (index >= 0 && index < size) return index;
  return fail("out_of_range", `${type}: index ${given} is outside 0..${size - 1}`);
}

/** The shape that numpy's rules give for both, or undefined. */
export function broadcastShape(a: Shape, b: Shape): Shape | undefined {
  const rank = Math.max(a.length, b.length);
  const shape: number[] = [];
  for (let axis = 0; axis < rank; axis++) {
    const sizeA = a[axis - rank + a.length] ?? 1;
    const sizeB = b[axis - rank + b.length] ?? 1;
    if (sizeA !== sizeB && sizeA !== 1 && sizeB !== 1) return undefined;
    shape.push(sizeA === 1 ? sizeB : sizeA);
  }
  return shape;
}

/** Sizes before, at and after an axis: how row-major data splits around it. */
export function splitAt(shape: Shape, axis: number): { outer: number; size: number; inner: number } {
  return {
    outer: elementCount(shape.slice(0, axis)),
    size: shape[axis] ?? 1,
    inner: elementCount(shape.slice(axis + 1)),
  };
}

/** Distance in elements between neighbours along each axis. */
export function stridesOf(shape: Shape): number[] {
  const strides = new Array<number>(shape.length).fill(1);
  for (let axis = shape.length - 2; axis >= 0; axis--)
    strides[axis] = (strides[axis + 1] as number) * (shape[axis + 1] as number);
  return strides;
}

/** For every element of `shape`, in order, the index into data of shape `from` that is broadcast to it. */
export function broadcastIndex(from: Shape, shape: Shape): Int32Array {
  const strides = stridesOf(from);
  const offset = shape.length - from.length;
  const steps = shape.map((_, axis) =>
    axis < offset || from[axis - offset] === 1 ? 0 : (strides[axis - offset] ?? 0),
  );
  return walkIndex(shape, steps);
}

/** For every element of `shape`, in order, the sum of its coordinates times `steps`. */
export function walkIndex(shape: Shape, steps: readonly number[], start = 0): Int32Array {
  const index = new Int32Array(elementCount(shape));
  const at = new Array<number>(shape.length).fill(0);
  let position = start;
  for (let i = 0; i < index.length; i++) {
    index[i] = position;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      position += steps[axis] as number;
      at[axis] = (at[axis] as number) + 1;
      if ((at[axis] as number) < (shape[axis] as number)) break;
      position -= (steps[axis] as number) * (shape[axis] as number);
      at[axis] = 0;
    }
  }
  return index;
}
