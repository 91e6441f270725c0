// Operators that move elements: as other views where strides can say it, else as copies. What is added to one place is added by one
// thread, in index order.

import { fail } from "../../core/errors.ts";
import { elementCount, type Shape } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numberOf, numbersOf, resolveAxis } from "../../graph/operators/check.ts";
import { broadcastTo, cut, permuted, reshaped, type View } from "../portable/views.ts";
import { type Context, contiguous, type MaximaOf, placesAt, pushCopy, pushLoop } from "./context.ts";
import { groupsFor, literal, Shader, threads } from "./shader.ts";

export function lowerReshape(context: Context, node: GraphNode): void {
  const [view, out] = [context.view(node.inputs[0] as string), node.outputs[0] as string];
  const { shape } = context.info(out);
  context.define(out, reshaped(view, shape) ?? (reshaped(contiguous(context, view), shape) as View));
}

export function lowerTranspose(context: Context, node: GraphNode): void {
  const view = context.view(node.inputs[0] as string);
  context.define(
    node.outputs[0] as string,
    permuted(view, numbersOf(node.attributes, "perm") ?? [...view.shape.keys()].reverse()),
  );
}

export function lowerExpand(context: Context, node: GraphNode): void {
  const out = node.outputs[0] as string;
  context.define(out, broadcastTo(context.view(node.inputs[0] as string), context.info(out).shape));
}

function axisOf(context: Context, node: GraphNode, rank: number): number {
  const inputs = node.inputs.map((name) => context.info(name));
  return resolveAxis(node.op, inputs, numberOf(node.attributes, "axis", 0), rank);
}

export function lowerSplit(context: Context, node: GraphNode): void {
  const view = context.view(node.inputs[0] as string);
  const axis = axisOf(context, node, view.shape.length);
  let start = 0;
  for (const out of node.outputs) {
    const size = context.info(out).shape[axis] as number;
    context.define(out, cut(view, axis, start, size));
    start += size;
  }
}

export function lowerSlice(context: Context, node: GraphNode): void {
  const out = node.outputs[0] as string;
  let view = context.view(node.inputs[0] as string);
  const { shape } = context.info(out);
  const starts = numbersOf(node.attributes, "starts") as readonly number[];
  const axes = numbersOf(node.attributes, "axes") ?? starts.map((_, axis) => axis);
  const steps = numbersOf(node.attributes, "steps");
  for (const [i, given] of axes.entries()) {
    const axis = given < 0 ? given + view.shape.length : given;
    const size = view.shape[axis] as number;
    const [step, start] = [steps?.[i] ?? 1, starts[i] as number];
    const [low, high] = step > 0 ? [0, size] : [-1, size - 1];
    const placed = Math.min(Math.max(start < 0 ? start + size : start, low), high);
    view = cut(view, axis, placed, shape[axis] as number, step);
  }
  context.define(out, view);
}

export function lowerConcat(context: Context, node: GraphNode): void {
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  const result = context.fresh(dtype, shape);
  const axis = axisOf(context, node, shape.length);
  let start = 0;
  for (const name of node.inputs) {
    const part = context.view(name);
    const size = part.shape[axis] as number;
    pushCopy(context, cut(result, axis, start, size), part, "Concat");
    start += size;
  }
  context.define(out, result);
}

export function lowerPad(context: Context, node: GraphNode): void {
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (dtype === "bool") fail("unimplemented", "Pad of bool does not run on the GPUs of browsers");
  const view = context.view(node.inputs[0] as string);
  const pads = numbersOf(node.attributes, "pads") as readonly number[];
  const value = numberOf(node.attributes, "value", 0);
  const result = context.fresh(dtype, shape);
  const filling = dtype === "float32" ? literal(value) : String(value);
  pushLoop(context, result, { leaves: [], dtype, compute: () => ({ lines: [], value: filling }) }, "fill");
  let inside = result;
  for (const axis of shape.keys()) inside = cut(inside, axis, pads[axis] as number, view.shape[axis] as number);
  pushCopy(context, inside, view, "Pad");
  context.define(out, result);
}

/** An index counted from the front. What is out of range was refused where it was seen; here nothing outside is read. */
function indexCode(shader: Shader, indices: View, at: string, size: number): string[] {
  return [
    `let given = ${shader.load(indices, at)};`,
    `let index = clamp(select(given, given + ${size}, given < 0), 0, ${size - 1});`,
  ];
}

function pushThreads(context: Context, what: string, shader: Shader, count: number, body: readonly string[]): void {
  const begin = [`let i = group * ${threads} + lane;`, `if (i >= ${count}) { return; }`];
  const groups = groupsFor(Math.ceil(count / threads));
  context.dispatch(shader.finish(what, [...begin, ...body], [threads, 1], groups));
}

/** What a node picks out of data by indices along an axis, and where it goes. */
function picking(context: Context, node: GraphNode) {
  const [data, indices] = node.inputs.map((name) => context.view(name)) as [View, View];
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  const axis = axisOf(context, node, data.shape.length);
  const size = data.shape[axis] as number;
  context.indexed(indices, node.op, size);
  const result = context.fresh(dtype, shape);
  context.define(out, result);
  return { data, indices, shape, axis, size, result };
}

/** Gather: slices along an axis. */
export function lowerGather(context: Context, node: GraphNode): void {
  const { data, indices, shape, axis, size, result } = picking(context, node);
  if (elementCount(shape) === 0) return;
  const still = (count: number) => new Array<number>(count).fill(0);
  const [front, back] = [data.strides.slice(0, axis), data.strides.slice(axis + 1)];
  const slices: View = { ...data, shape, strides: [...front, ...still(indices.shape.length), ...back] };
  const picks: View = { ...indices, shape, strides: [...still(axis), ...indices.strides, ...still(back.length)] };
  const shader = new Shader();
  const { lines, at } = placesAt([result, slices, picks], "i", "");
  const element = shader.load(data, `${at[1]} + index * ${data.strides[axis]}`);
  pushThreads(context, "Gather", shader, elementCount(shape), [
    ...[...lines, ...indexCode(shader, indices, at[2] as string, size)],
    shader.store(result, at[0] as string, element),
  ]);
}

/** The data without a step along the axis, over the indices' shape. */
function besides(data: View, shape: Shape, axis: number): View {
  return { ...data, shape, strides: data.strides.map((stride, at) => (at === axis ? 0 : stride)) };
}

export function lowerGatherElements(context: Context, node: GraphNode): void {
  const { data, indices, shape, axis, size, result } = picking(context, node);
  if (elementCount(shape) === 0) return;
  const shader = new Shader();
  const { lines, at } = placesAt([result, besides(data, shape, axis), indices], "i", "");
  const element = shader.load(data, `${at[1]} + index * ${data.strides[axis]}`);
  pushThreads(context, "GatherElements", shader, elementCount(shape), [
    ...[...lines, ...indexCode(shader, indices, at[2] as string, size)],
    shader.store(result, at[0] as string, element),
  ]);
}

/** A copy of the data; then one thread for all updates that could meet in one place, in their order. */
export function lowerScatterElements(context: Context, node: GraphNode): void {
  const [data, indices, updates] = node.inputs.map((name) => context.view(name)) as [View, View, View];
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  if (dtype !== "float32") fail("unimplemented", `ScatterElements of ${dtype} does not run on the GPUs of browsers`);
  const axis = axisOf(context, node, shape.length);
  const size = shape[axis] as number;
  context.indexed(indices, "ScatterElements", size);
  const result = context.fresh(dtype, shape);
  pushCopy(context, result, data, "ScatterElements");
  context.define(out, result);
  const count = elementCount(indices.shape);
  if (count === 0) return;
  const maxima = context.maxima.get(indices.buffer);
  if (maxima !== undefined && shape.length === 1 && elementCount(maxima.image) === size) {
    pushToMaxima(context, maxima, contiguous(context, indices), contiguous(context, updates), result);
    return;
  }
  const lane = (view: View): View => ({
    ...cut(view, axis, 0, 1),
    shape: indices.shape.map((n, at) => (at === axis ? 1 : n)),
  });
  const shader = new Shader();
  const { lines, at } = placesAt([besides(result, indices.shape, axis), indices, updates].map(lane), "i", "");
  const element = `${at[0]} + index * ${result.strides[axis]}`;
  const update = shader.load(updates, `${at[2]} + k * ${updates.strides[axis]}`);
  pushThreads(context, "ScatterElements", shader, count / (indices.shape[axis] as number), [
    ...[...lines, `for (var k = 0; k < ${indices.shape[axis]}; k++) {`],
    ...indexCode(shader, indices, `${at[1]} + k * ${indices.strides[axis]}`, size),
    shader.store(result, element, `${shader.load(result, element)} + ${update}`),
    "}",
  ]);
}

/** The gradient of a MaxPool: each element of the image looks at the windows that hold it, in their order. */
function pushToMaxima(context: Context, maxima: MaximaOf, indices: View, updates: View, result: View): void {
  const { image, pooled, reach, strides, pads } = maxima;
  const [height, width] = image.slice(2) as [number, number];
  const [rows, columns] = pooled.slice(2) as [number, number];
  const shader = new Shader();
  const range = (name: string, axis: 0 | 1, limit: number) => {
    const [last, stride] = [`(${name} + ${pads[axis]})`, strides[axis]];
    return [
      `let ${name}First = max(0, (${last} - ${reach[axis] - 1} + ${stride - 1}) / ${stride});`,
      `let ${name}Last = min(${limit - 1}, ${last} / ${stride});`,
    ];
  };
  const at = `(i / ${height * width}) * ${rows * columns} + r * ${columns} + c`;
  pushThreads(context, "ScatterElements", shader, elementCount(result.shape), [
    ...[
      `let x = i % ${width};`,
      `let y = i / ${width} % ${height};`,
      ...range("y", 0, rows),
      ...range("x", 1, columns),
    ],
    `var sum = ${shader.load(result, "i")};`,
    ...["for (var r = yFirst; r <= yLast; r++) {", "for (var c = xFirst; c <= xLast; c++) {"],
    `if (${shader.load(indices, `${indices.offset} + ${at}`)} == i) { sum += ${shader.load(updates, `${updates.offset} + ${at}`)}; }`,
    ...["}", "}", shader.store(result, "i", "sum")],
  ]);
}

/** RotaryEmbedding: pairs of a row turned by the angles of its position. */
export function lowerRotary(context: Context, node: GraphNode): void {
  const [x, cos, sin] = node.inputs.map((name) => context.view(name)) as [View, View, View];
  const out = node.outputs[0] as string;
  const [sequence, width] = x.shape.slice(-2) as [number, number];
  const result = context.fresh("float32", x.shape);
  const last = x.shape.length - 1;
  const half = width / 2;
  const isInterleaved = numberOf(node.attributes, "interleaved", 0) === 1;
  const part = (view: View, second: boolean) =>
    isInterleaved ? cut(view, last, second ? 1 : 0, half, 2) : cut(view, last, second ? half : 0, half);
  const angles = [cos, sin].map((table) => broadcastTo(cut(table, 0, 0, sequence), part(x, false).shape));
  const leaves = [part(x, false), part(x, true), ...angles];
  for (const second of [false, true]) {
    const compute = ([a, b, c, s]: readonly string[]) => ({
      lines: [],
      value: second ? `${a} * ${s} + ${b} * ${c}` : `${a} * ${c} - ${b} * ${s}`,
    });
    pushLoop(context, part(result, second), { leaves, dtype: "float32", compute }, "RotaryEmbedding");
  }
  context.define(out, result);
}
