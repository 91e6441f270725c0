// Operators that move elements: as other views where strides can say it, else as copies. Indices are checked where they
// are used; one out of range ends the run with the operator's own words.

import { elementBytes, elementCount } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numberOf, numbersOf, resolveAxis } from "../../graph/operators/check.ts";
import {
  addF32,
  addI32,
  atLeastI32,
  type Code,
  f32x4,
  get,
  i32,
  i32x4,
  load,
  mulI32,
  shiftRightSignedI32,
  store,
  unequalI32,
  when,
} from "../kernels/wasm.ts";
import type { FunctionBuilder } from "../kernels/wasm-module.ts";
import { type CodeStep, type Context, contiguous, type Places, pushCopy, pushLoop, type Vector } from "./context.ts";
import { fitsLanes } from "./elementwise.ts";
import { eachQuad, loadQuad, type Pointer, storeQuad, walk } from "./loops.ts";
import { broadcastTo, byteStrides, collapsed, cut, innerView, permuted, reshaped, type View } from "./views.ts";

export function lowerReshape(context: Context, node: GraphNode): boolean {
  const [view, out] = [context.view(node.inputs[0] as string), node.outputs[0] as string];
  const { shape } = context.info(out);
  const direct = reshaped(view, shape);
  if (direct === undefined && !fitsLanes(view.dtype)) return false;
  context.define(out, direct ?? (reshaped(contiguous(context, view), shape) as View));
  return true;
}

export function lowerTranspose(context: Context, node: GraphNode): boolean {
  const view = context.view(node.inputs[0] as string);
  const perm = numbersOf(node.attributes, "perm") ?? [...view.shape.keys()].reverse();
  context.define(node.outputs[0] as string, permuted(view, perm));
  return true;
}

export function lowerExpand(context: Context, node: GraphNode): boolean {
  const out = node.outputs[0] as string;
  context.define(out, broadcastTo(context.view(node.inputs[0] as string), context.info(out).shape));
  return true;
}

export function lowerSplit(context: Context, node: GraphNode): boolean {
  const view = context.view(node.inputs[0] as string);
  const axis = axisOf(context, node, view);
  let start = 0;
  for (const out of node.outputs) {
    const size = context.info(out).shape[axis] as number;
    context.define(out, cut(view, axis, start, size));
    start += size;
  }
  return true;
}

function axisOf(context: Context, node: GraphNode, view: View): number {
  const inputs = node.inputs.map((name) => context.info(name));
  return resolveAxis(node.op, inputs, numberOf(node.attributes, "axis", 0), view.shape.length);
}

export function lowerSlice(context: Context, node: GraphNode): boolean {
  const [name, out] = [node.inputs[0] as string, node.outputs[0] as string];
  let view = context.view(name);
  const shape = context.info(out).shape;
  const starts = numbersOf(node.attributes, "starts") as readonly number[];
  const axes = numbersOf(node.attributes, "axes") ?? starts.map((_, axis) => axis);
  const steps = numbersOf(node.attributes, "steps");
  for (const [i, given] of axes.entries()) {
    const axis = given < 0 ? given + view.shape.length : given;
    const size = view.shape[axis] as number;
    const step = steps?.[i] ?? 1;
    const start = starts[i] as number;
    const placed = Math.min(Math.max(start < 0 ? start + size : start, step > 0 ? 0 : -1), step > 0 ? size : size - 1);
    view = cut(view, axis, placed, shape[axis] as number, step);
  }
  context.define(out, view);
  return true;
}

export function lowerConcat(context: Context, node: GraphNode): boolean {
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (!fitsLanes(dtype)) return false;
  const result = context.fresh(dtype, shape);
  const axis = axisOf(context, node, result);
  let start = 0;
  for (const name of node.inputs) {
    const part = context.view(name);
    const size = part.shape[axis] as number;
    pushCopy(context, cut(result, axis, start, size), part, "Concat");
    start += size;
  }
  context.define(out, result);
  return true;
}

export function lowerPad(context: Context, node: GraphNode): boolean {
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (dtype !== "float32" && dtype !== "int32") return false;
  const view = context.view(node.inputs[0] as string);
  const pads = numbersOf(node.attributes, "pads") as readonly number[];
  context.define(out, padded(context, view, pads.slice(0, shape.length), shape, numberOf(node.attributes, "value", 0)));
  return true;
}

/** A copy of the view inside a larger shape that is filled with a value. */
export function padded(
  context: Context,
  view: View,
  before: readonly number[],
  shape: readonly number[],
  value: number,
): View {
  const result = context.fresh(view.dtype, shape);
  const filling = view.dtype === "float32" ? f32x4.splat(value) : i32x4.splat(value);
  pushLoop(context, result, { leaves: [], dtype: view.dtype, compute: () => filling }, "fill");
  let inside = result;
  for (const [axis, start] of before.entries()) inside = cut(inside, axis, start, view.shape[axis] as number);
  pushCopy(context, inside, view, "Pad");
  return result;
}

/** The index at a pointer, counted from the front; the run ends if it is out of range. */
function checkedIndex(fn: FunctionBuilder, places: Places, pointer: Pointer, view: View, size: number) {
  const given = fn.keep(load.i32(get(pointer)));
  const index = fn.keep(addI32(get(given), mulI32(shiftRightSignedI32(get(given), i32(31)), i32(-size))));
  const refused = fn.captured(() => places.refuse(fn, get(given)));
  fn.emit(when(atLeastI32(get(index), i32(size)), [refused]));
  if (view.dtype === "int64") {
    // Beyond 32 bits it is out of range as well: the upper word only repeats the sign.
    const upper = unequalI32(load.i32(get(pointer), 4), shiftRightSignedI32(get(given), i32(31)));
    fn.emit(when(upper, [refused]));
  }
  return index;
}

function isIndex(view: View): boolean {
  return view.dtype === "int32" || view.dtype === "int64";
}

/** Gather: slices along an axis. */
export function lowerGather(context: Context, node: GraphNode): boolean {
  const [data, indices] = node.inputs.map((name) => context.view(name)) as [View, View];
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (!fitsLanes(dtype) || !isIndex(indices) || elementCount(shape) === 0) return false;
  const axis = axisOf(context, node, data);
  const size = data.shape[axis] as number;
  const result = context.fresh(dtype, shape);
  const outer = axis + indices.shape.length;
  const still = (count: number) => new Array<number>(count).fill(0);
  const sliceBytes = (data.strides[axis] as number) * elementBytes(dtype);
  const step: CodeStep = {
    kind: "code",
    what: "Gather",
    reads: [data, indices],
    writes: [result],
    indexed: { type: "Gather", size },
    emit: (fn, places) => {
      const strides = [
        byteStrides(result).slice(0, outer),
        [...byteStrides(data).slice(0, axis), ...still(indices.shape.length)],
        [...still(axis), ...byteStrides(indices)],
      ];
      const starts = [result, data, indices].map((view) => places.at(view));
      const inner = collapsed([innerView(result, outer), innerView(data, axis + 1)]);
      walk(fn, shape.slice(0, outer), strides, starts, ([to, from, at]) => {
        const index = checkedIndex(fn, places, at as Pointer, indices, size);
        const source = addI32(get(from as Pointer), mulI32(get(index), i32(sliceBytes)));
        const outerStrides = inner.strides.map((each) => each.slice(0, -1));
        const unit = elementBytes(dtype);
        walk(fn, inner.shape.slice(0, -1), outerStrides, [get(to as Pointer), source], ([target, slice]) =>
          eachQuad(fn, inner.shape.at(-1) ?? 1, (quad) => {
            const value = loadQuad(fn, slice as Pointer, quad, inner.strides[1]?.at(-1) ?? unit, dtype);
            storeQuad(fn, target as Pointer, quad, inner.strides[0]?.at(-1) ?? unit, dtype, value);
          }),
        );
      });
    },
  };
  context.step(step);
  context.define(out, result);
  return true;
}

/** A walk over the indices' shape whose second pointer stands at the slice of `data` that the index picks from. */
function eachPicked(
  fn: FunctionBuilder,
  places: Places,
  { data, indices, other, axis }: { data: View; indices: View; other: View; axis: number },
  body: (element: Code<"i32">, other: Pointer) => void,
): void {
  const along = byteStrides(data).map((stride, at) => (at === axis ? 0 : stride));
  const starts = [indices, data, other].map((view) => places.at(view));
  const size = data.shape[axis] as number;
  walk(fn, indices.shape, [byteStrides(indices), along, byteStrides(other)], starts, ([at, slice, third]) => {
    const index = checkedIndex(fn, places, at as Pointer, indices, size);
    body(addI32(get(slice as Pointer), mulI32(get(index), i32(byteStrides(data)[axis] as number))), third as Pointer);
  });
}

export function lowerGatherElements(context: Context, node: GraphNode): boolean {
  const [data, indices] = node.inputs.map((name) => context.view(name)) as [View, View];
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (elementBytes(dtype) !== 4 || !isIndex(indices) || elementCount(shape) === 0) return false;
  const result = context.fresh(dtype, shape);
  const axis = axisOf(context, node, data);
  context.step({
    kind: "code",
    what: "GatherElements",
    reads: [data, indices],
    writes: [result],
    indexed: { type: "GatherElements", size: data.shape[axis] as number },
    emit: (fn, places) =>
      eachPicked(fn, places, { data, indices, other: result, axis }, (element, to) =>
        fn.emit(store.i32(get(to), load.i32(element))),
      ),
  });
  context.define(out, result);
  return true;
}

/** A copy of the data, then one addition per index, in their order. */
export function lowerScatterElements(context: Context, node: GraphNode): boolean {
  const [data, indices, updates] = node.inputs.map((name) => context.view(name)) as [View, View, View];
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (dtype !== "float32" || !isIndex(indices)) return false;
  const result = context.fresh(dtype, shape);
  const axis = axisOf(context, node, data);
  pushCopy(context, result, data, "ScatterElements");
  context.define(out, result);
  if (elementCount(indices.shape) === 0) return true;
  context.step({
    kind: "code",
    what: "ScatterElements",
    reads: [indices, updates, result],
    writes: [result],
    indexed: { type: "ScatterElements", size: shape[axis] as number },
    emit: (fn, places) =>
      eachPicked(fn, places, { data: result, indices, other: updates, axis }, (element, update) => {
        const at = fn.keep(element);
        fn.emit(store.f32(get(at), addF32(load.f32(get(at)), load.f32(get(update)))));
      }),
  });
  return true;
}

/** RotaryEmbedding: pairs of a row turned by the angles of its position. */
export function lowerRotary(context: Context, node: GraphNode): boolean {
  const [x, cos, sin] = node.inputs.map((name) => context.view(name)) as [View, View, View];
  const out = node.outputs[0] as string;
  const [sequence, width] = x.shape.slice(-2) as [number, number];
  if (x.dtype !== "float32" || elementCount(x.shape) === 0) return false;
  const result = context.result(out);
  const last = x.shape.length - 1;
  const half = width / 2;
  const isInterleaved = numberOf(node.attributes, "interleaved", 0) === 1;
  const part = (view: View, second: boolean) =>
    isInterleaved ? cut(view, last, second ? 1 : 0, half, 2) : cut(view, last, second ? half : 0, half);
  const angles = [cos, sin].map((table) => broadcastTo(cut(table, 0, 0, sequence), part(x, false).shape));
  const leaves = [part(x, false), part(x, true), ...angles];
  for (const second of [false, true])
    pushLoop(
      context,
      part(result, second),
      {
        leaves,
        dtype: "float32",
        compute: (_fn, loaded) => {
          const [a, b, c, s] = loaded as [Vector, Vector, Vector, Vector];
          if (!second) return f32x4.sub(f32x4.mul(a, c), f32x4.mul(b, s));
          return f32x4.add(f32x4.mul(a, s), f32x4.mul(b, c));
        },
      },
      "RotaryEmbedding",
    );
  context.define(out, result);
  return true;
}
