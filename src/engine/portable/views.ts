// Tensors as strided views of buffers. Reshape, Transpose, Split, Slice, Expand and their like become other views of the
// same memory wherever strides can say it; nothing here emits code.

import { type DType, elementBytes, elementCount, type Shape } from "../../core/tensor.ts";
import { stridesOf } from "../../graph/operators/check.ts";

export interface View {
  /** The number of its buffer. */
  readonly buffer: number;
  /** Offset and strides count elements. */
  readonly offset: number;
  readonly shape: Shape;
  readonly strides: readonly number[];
  readonly dtype: DType;
}

export function wholeView(buffer: number, dtype: DType, shape: Shape): View {
  return { buffer, offset: 0, shape, strides: stridesOf(shape), dtype };
}

export function isContiguous({ shape, strides }: Pick<View, "shape" | "strides">): boolean {
  if (shape.includes(0)) return true;
  let expected = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    if (shape[axis] !== 1 && strides[axis] !== expected) return false;
    expected *= shape[axis] as number;
  }
  return true;
}

/** Numpy's rules: missing axes and axes of size 1 stand still. */
export function broadcastTo(view: View, shape: Shape): View {
  const missing = shape.length - view.shape.length;
  const strides = shape.map((_, axis) =>
    axis < missing || view.shape[axis - missing] === 1 ? 0 : (view.strides[axis - missing] as number),
  );
  return { ...view, shape, strides };
}

export function permuted(view: View, perm: readonly number[]): View {
  return {
    ...view,
    shape: perm.map((axis) => view.shape[axis] as number),
    strides: perm.map((axis) => view.strides[axis] as number),
  };
}

/** `count` elements along an axis, from `start` in steps of `step`. */
export function cut(view: View, axis: number, start: number, count: number, step = 1): View {
  const stride = view.strides[axis] as number;
  return {
    ...view,
    offset: view.offset + start * stride,
    shape: view.shape.map((size, at) => (at === axis ? count : size)),
    strides: view.strides.map((each, at) => (at === axis ? stride * step : each)),
  };
}

/** The same elements under another shape, or undefined where strides cannot say it. */
export function reshaped(view: View, shape: Shape): View | undefined {
  if (isContiguous(view)) return { ...view, shape, strides: stridesOf(shape) };
  const strides = new Array<number>(shape.length).fill(0);
  const from = view.shape.flatMap((size, axis) => (size === 1 ? [] : [{ size, stride: view.strides[axis] as number }]));
  const to = shape.flatMap((size, axis) => (size === 1 ? [] : [{ size, axis }]));
  let [i, j] = [0, 0];
  while (i < from.length) {
    // The smallest runs of old and new axes that hold equally many elements.
    let [ends, stops] = [i + 1, j + 1];
    let [old, now] = [from[i]?.size as number, to[j]?.size as number];
    while (old !== now)
      if (old < now) old *= from[ends++]?.size as number;
      else now *= to[stops++]?.size as number;
    for (let k = i; k < ends - 1; k++) {
      const next = from[k + 1] as { size: number; stride: number };
      if (from[k]?.stride !== next.stride * next.size) return undefined;
    }
    let stride = from[ends - 1]?.stride as number;
    for (let k = stops - 1; k >= j; k--) {
      const { size, axis } = to[k] as { size: number; axis: number };
      strides[axis] = stride;
      stride *= size;
    }
    [i, j] = [ends, stops];
  }
  return { ...view, shape, strides };
}

export interface Walk {
  readonly shape: readonly number[];
  /** Of every view, in bytes. */
  readonly strides: readonly (readonly number[])[];
}

/** Views of one shape with as few axes as possible: sizes of 1 vanish, axes that follow each other in all views join. */
export function collapsed(views: readonly View[]): Walk {
  const shape = [...(views[0]?.shape ?? [])];
  const strides = views.map((view) => view.strides.map((stride) => stride * elementBytes(view.dtype)));
  const drop = (axis: number) => {
    shape.splice(axis, 1);
    for (const each of strides) each.splice(axis, 1);
  };
  for (let axis = shape.length - 1; axis >= 0; axis--) if (shape[axis] === 1) drop(axis);
  for (let axis = shape.length - 2; axis >= 0; axis--)
    if (strides.every((each) => each[axis] === (each[axis + 1] as number) * (shape[axis + 1] as number))) {
      shape[axis + 1] = (shape[axis] as number) * (shape[axis + 1] as number);
      drop(axis);
    }
  return { shape, strides };
}

/** The axes in front of the last one, as few as possible. */
export function outerWalk(views: readonly View[]): Walk {
  return collapsed(
    views.map((view) => ({ ...view, shape: view.shape.slice(0, -1), strides: view.strides.slice(0, -1) })),
  );
}

/** The part of a view that an outer loop stands still for. */
export function innerView(view: View, outerAxes: number): View {
  return { ...view, shape: view.shape.slice(outerAxes), strides: view.strides.slice(outerAxes) };
}

export function byteStrides(view: View): number[] {
  return view.strides.map((stride) => stride * elementBytes(view.dtype));
}

export function viewBytes(view: View): number {
  return elementCount(view.shape) * elementBytes(view.dtype);
}
