// Convolutions and pools. A padded image seen through its windows is a strided view, so that a convolution is a copy of
// that view and a matrix product; its transpose is the product and an addition of the view in order of the taps.

import { elementCount } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numberOf, numbersOf } from "../../graph/operators/check.ts";
import { type Window, windowOf } from "../../graph/operators/images/pooling.ts";
import { f32, f32x4, get, type i32 } from "../kernels/wasm.ts";
import type { FunctionBuilder } from "../kernels/wasm-module.ts";
import { type Context, contiguous, type Places, pushCopy, pushLoop, type Vector } from "./context.ts";
import { callGemm, gemmScratchBytes } from "./gemm.ts";
import { eachQuad, loadQuad, type Pointer, storeQuad, walk } from "./loops.ts";
import { padded } from "./moves.ts";
import { broadcastTo, byteStrides, collapsed, cut, reshaped, type View } from "./views.ts";

type Pair = readonly [number, number];

/** The image with its pads, and as much more as the last window reaches. */
function withPads(context: Context, x: View, { pads }: Window, value: number): View {
  if (pads.every((pad) => pad === 0)) return x;
  const [batch, channels, height, width] = x.shape as [number, number, number, number];
  const shape = [batch, channels, height + pads[0] + pads[2], width + pads[1] + pads[3]];
  return padded(context, x, [0, 0, pads[0], pads[1]], shape, value);
}

/** [batch, channels, kernel rows, kernel columns, output rows, output columns] of a padded image. */
function windowsOf(image: View, { kernel, strides, dilations, output }: Window): View {
  const [batch, channel, row, column] = image.strides as [number, number, number, number];
  return {
    ...image,
    shape: [...image.shape.slice(0, 2), ...kernel, ...output],
    strides: [batch, channel, row * dilations[0], column * dilations[1], row * strides[0], column * strides[1]],
  };
}

export function lowerConv(context: Context, node: GraphNode): boolean {
  const [x, weight, bias] = node.inputs.map((name) => context.view(name)) as [View, View, View?];
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (dtype !== "float32" || elementCount(shape) === 0) return false;
  const inputs = node.inputs.map((name) => context.info(name));
  const window = windowOf("Conv", inputs, node.attributes, weight.shape.slice(2));
  const group = numberOf(node.attributes, "group", 1);
  const result = context.fresh("float32", shape);
  if (bias !== undefined) {
    const perFilter = { ...bias, shape: [bias.shape[0] as number, 1, 1], strides: [bias.strides[0] as number, 0, 0] };
    pushCopy(context, result, broadcastTo(perFilter, shape), "bias");
  }
  const windows = windowsOf(withPads(context, x, window, 0), window);
  pushConvolution(context, {
    windows,
    filters: contiguous(context, weight),
    out: result,
    group,
    onBase: bias !== undefined,
  });
  context.define(out, result);
  return true;
}

interface Convolution {
  readonly windows: View;
  /** [filters, channels / group, kernel rows, kernel columns] */
  readonly filters: View;
  readonly out: View;
  readonly group: number;
  readonly onBase: boolean;
}

/** For every image and group: its windows as a matrix in scratch, then filters times windows. */
function pushConvolution(context: Context, { windows, filters, out, group, onBase }: Convolution): void {
  const [batch, channels] = windows.shape as [number, number];
  const count = filters.shape[0] as number;
  const depth = elementCount(filters.shape.slice(1));
  const places2 = elementCount(out.shape.slice(2));
  const matrixBytes = align(4 * depth * places2);
  context.step({
    kind: "code",
    what: "Conv",
    reads: onBase ? [windows, filters, out] : [windows, filters],
    writes: [out],
    scratchBytes: matrixBytes + gemmScratchBytes(places2),
    emit: (fn, places) => {
      const strides = [
        [4 * (windows.strides[0] as number), (4 * (windows.strides[1] as number) * channels) / group],
        [0, (4 * depth * count) / group],
        [4 * count * places2, (4 * count * places2) / group],
      ];
      const starts = [windows, filters, out].map((view) => places.at(view));
      walk(fn, [batch, group], strides, starts, ([from, filter, to]) => {
        const slice: View = {
          ...windows,
          shape: [channels / group, ...windows.shape.slice(2)],
          strides: windows.strides.slice(1),
        };
        copyTo(fn, places.scratch, slice, get(from as Pointer));
        const c = { pointer: get(to as Pointer), rowStride: 4 * places2 };
        fn.emit(
          callGemm(places.gemm("floats"), {
            a: { pointer: get(filter as Pointer), rowStride: 4 * depth, columnStride: 4 },
            b: { pointer: places.scratch, rowStride: 4 * places2, columnStride: 4 },
            c,
            ...(onBase && { base: c }),
            ...{
              rows: count / group,
              columns: places2,
              depth,
              alpha: f32(1),
              scratch: places.scratchFrom(matrixBytes),
            },
          }),
        );
      });
    },
  });
}

const align = (bytes: number) => Math.ceil(bytes / 64) * 64;

/** Copies a view, element by element in order, to a place in scratch. */
function copyTo(fn: FunctionBuilder, to: ReturnType<typeof i32>, view: View, from: ReturnType<typeof i32>): void {
  const whole: View = { ...view, strides: contiguousStrides(view.shape) };
  const { shape, strides } = collapsed([whole, view]);
  const outer = strides.map((each) => each.slice(0, -1));
  walk(fn, shape.slice(0, -1), outer, [to, from], ([target, source]) =>
    eachQuad(fn, shape.at(-1) ?? 1, (quad) => {
      const value = loadQuad(fn, source as Pointer, quad, strides[1]?.at(-1) ?? 4, "float32");
      storeQuad(fn, target as Pointer, quad, strides[0]?.at(-1) ?? 4, "float32", value);
    }),
  );
}

function contiguousStrides(shape: readonly number[]): number[] {
  return shape.map((_, axis) => elementCount(shape.slice(axis + 1)));
}

/** The gradient of a convolution with respect to its image. */
export function lowerConvTranspose(context: Context, node: GraphNode): boolean {
  const [x, weight] = node.inputs.map((name) => context.view(name)) as [View, View];
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (dtype !== "float32" || elementCount(shape) === 0) return false;
  const pair = (name: string, otherwise: Pair) => (numbersOf(node.attributes, name) ?? otherwise) as Pair;
  const [strides, dilations] = [pair("strides", [1, 1]), pair("dilations", [1, 1])];
  const pads = (numbersOf(node.attributes, "pads") ?? [0, 0, 0, 0]) as Window["pads"];
  const kernel = weight.shape.slice(2) as unknown as Pair;
  const output = x.shape.slice(2) as unknown as Pair;
  const window: Window = { kernel, strides, pads, dilations, output };
  const [batch, channels, height, width] = shape as [number, number, number, number];
  const image = context.fresh("float32", [batch, channels, height + pads[0] + pads[2], width + pads[1] + pads[3]]);
  pushLoop(context, image, { leaves: [], dtype: "float32", compute: () => f32x4.splat(0) }, "fill");
  const group = numberOf(node.attributes, "group", 1);
  pushSpread(context, { x: contiguous(context, x), filters: contiguous(context, weight), image, window, group });
  context.define(out, cut(cut(image, 2, pads[0], height), 3, pads[1], width));
  return true;
}

interface Spread {
  readonly x: View;
  /** [filters, channels / group, kernel rows, kernel columns] */
  readonly filters: View;
  readonly image: View;
  readonly window: Window;
  readonly group: number;
}

/** For every image and group: transposed filters times x into scratch, then each tap added to the image in order. */
function pushSpread(context: Context, { x, filters, image, window, group }: Spread): void {
  const [batch, count] = x.shape as [number, number];
  const places2 = elementCount(x.shape.slice(2));
  const [, channels] = filters.shape as [number, number];
  const rows = elementCount(filters.shape.slice(1));
  const matrixBytes = align(4 * rows * places2);
  const windows = windowsOf(image, window);
  context.step({
    kind: "code",
    what: "ConvTranspose",
    reads: [x, filters, image],
    writes: [image],
    scratchBytes: matrixBytes + gemmScratchBytes(places2),
    emit: (fn, places) => {
      const strides = [
        [4 * count * places2, (4 * count * places2) / group],
        [0, (4 * rows * count) / group],
        [4 * (image.strides[0] as number), 4 * (image.strides[1] as number) * channels],
      ];
      const starts = [x, filters, image].map((view) => places.at(view));
      walk(fn, [batch, group], strides, starts, ([from, filter, to]) => {
        fn.emit(
          callGemm(places.gemm("floats"), {
            a: { pointer: get(filter as Pointer), rowStride: 4, columnStride: 4 * rows },
            b: { pointer: get(from as Pointer), rowStride: 4 * places2, columnStride: 4 },
            c: { pointer: places.scratch, rowStride: 4 * places2 },
            ...{
              rows,
              columns: places2,
              depth: count / group,
              alpha: f32(1),
              scratch: places.scratchFrom(matrixBytes),
            },
          }),
        );
        addTaps(fn, places, windows, channels, to as Pointer);
      });
    },
  });
}

/** Scratch [channels, taps, output] onto the image's windows: taps one after the other, so that sums have one order. */
function addTaps(fn: FunctionBuilder, places: Places, windows: View, channels: number, image: Pointer): void {
  const shape = [channels, ...windows.shape.slice(2)];
  const inScratch = contiguousStrides(shape).map((stride) => 4 * stride);
  const inImage = byteStrides(windows).slice(1);
  const order = [1, 2, 0, 3, 4];
  const outer = order.slice(0, -1);
  const pick = (list: readonly number[]) => outer.map((axis) => list[axis] as number);
  walk(fn, pick(shape), [pick(inScratch), pick(inImage)], [places.scratch, get(image)], ([from, to]) =>
    eachQuad(fn, shape.at(-1) as number, (quad) => {
      const stride = inImage.at(-1) as number;
      const before = fn.keep(loadQuad(fn, to as Pointer, quad, stride, "float32"));
      const added = loadQuad(fn, from as Pointer, quad, 4, "float32");
      storeQuad(fn, to as Pointer, quad, stride, "float32", f32x4.add(get(before), added));
    }),
  );
}

/** Above it one loop would have too many operands. */
const tapsMax = 64;

/** AveragePool, and MaxPool where nobody asks for the places of the maxima: one loop with the windows' taps as operands. */
export function lowerPool(context: Context, node: GraphNode): boolean {
  const x = context.view(node.inputs[0] as string);
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  const inputs = node.inputs.map((name) => context.info(name));
  const window = windowOf(node.op, inputs, node.attributes);
  const taps = window.kernel[0] * window.kernel[1];
  if (dtype !== "float32" || taps > tapsMax || node.outputs.length > 1 || elementCount(shape) === 0) return false;
  const isMax = node.op === "MaxPool";
  const windows = windowsOf(withPads(context, x, window, isMax ? Number.NEGATIVE_INFINITY : 0), window);
  const leaves = Array.from({ length: taps }, (_, tap) => {
    const [row, column] = [Math.floor(tap / window.kernel[1]), tap % window.kernel[1]];
    const one = cut(cut(windows, 2, row, 1), 3, column, 1);
    return reshaped(one, shape) as View;
  });
  const includesPads = numberOf(node.attributes, "count_include_pad", 0) === 1;
  const counts = isMax ? undefined : includesPads ? taps : countsOf(context, window, x);
  const result = context.fresh("float32", shape);
  const compute = (_fn: FunctionBuilder, loaded: readonly Vector[]): Vector => {
    const values = loaded.slice(0, taps);
    if (isMax) return values.reduce(f32x4.max);
    const divisor = typeof counts === "number" ? f32x4.splat(counts) : (loaded[taps] as Vector);
    return f32x4.div(values.reduce(f32x4.add), divisor);
  };
  const extra = typeof counts === "object" ? [broadcastTo(counts, shape)] : [];
  pushLoop(context, result, { leaves: [...leaves, ...extra], dtype: "float32", compute }, node.op);
  context.define(out, result);
  return true;
}

/** How many elements of the image each window covers: [output rows, output columns]. */
function countsOf(context: Context, window: Window, x: View): View {
  const along = (axis: 0 | 1) =>
    Array.from({ length: window.output[axis] }, (_, at) => {
      const start = at * window.strides[axis] - window.pads[axis];
      const taps = Array.from({ length: window.kernel[axis] }, (_, tap) => start + tap * window.dilations[axis]);
      return taps.filter((place) => place >= 0 && place < (x.shape[axis + 2] as number)).length;
    });
  const [rows, columns] = [along(0), along(1)];
  const counts = Float32Array.from(rows.flatMap((row) => columns.map((column) => row * column)));
  return context.constant({ dtype: "float32", shape: [...window.output], data: counts });
}
