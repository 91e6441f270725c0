// Convolutions, pools and batch normalisation: one thread for each element of the result, which walks its window in the order of the
// taps. No tiles: networks of images train on a browser's GPU, without being what it is best at.

import { elementCount } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numberOf, numbersOf } from "../../graph/operators/check.ts";
import { type Window, windowOf } from "../../graph/operators/images/pooling.ts";
import { broadcastTo, type View } from "../portable/views.ts";
import { type Context, pushLoop } from "./context.ts";
import { groupsFor, literal, Shader, threads } from "./shader.ts";

type Pair = readonly [number, number];
type Four = readonly [number, number, number, number];

/** Coordinates of the result's element `i`: image n, channel f, row and column. */
function coordinates([, channels, height, width]: Four): string[] {
  return [
    ...[`let i = group * ${threads} + lane;`, `let column = i % ${width};`, `let row = i / ${width} % ${height};`],
    ...[`let f = i / ${height * width} % ${channels};`, `let n = i / ${channels * height * width};`],
  ];
}

const placeOf = ({ offset, strides: [n, c, y, x] }: View, [image, channel, row, column]: readonly string[]): string =>
  `${offset} + ${image} * ${n} + ${channel} * ${c} + ${row} * ${y} + ${column} * ${x}`;

function push(context: Context, what: string, shader: Shader, out: View, body: readonly string[]): void {
  const count = elementCount(out.shape);
  const [place, ...rest] = coordinates(out.shape as Four) as [string, ...string[]];
  const lines = [place, `if (i >= ${count}) { return; }`, ...rest, ...body];
  if (count > 0) context.dispatch(shader.finish(what, lines, [threads, 1], groupsFor(Math.ceil(count / threads))));
}

/** A loop over the taps of a window; within it `y` and `x` are inside the image. */
function overTaps(
  { kernel, strides, pads, dilations }: Window,
  [height, width]: Pair,
  body: readonly string[],
): string[] {
  return [
    `for (var p = 0; p < ${kernel[0]}; p++) {`,
    `let y = row * ${strides[0]} - ${pads[0]} + p * ${dilations[0]};`,
    `if (y < 0 || y >= ${height}) { continue; }`,
    `for (var q = 0; q < ${kernel[1]}; q++) {`,
    `let x = column * ${strides[1]} - ${pads[1]} + q * ${dilations[1]};`,
    `if (x < 0 || x >= ${width}) { continue; }`,
    ...[...body, "}", "}"],
  ];
}

export function lowerConv(context: Context, node: GraphNode): void {
  const [x, weight, bias] = node.inputs.map((name) => context.view(name)) as [View, View, View?];
  const out = node.outputs[0] as string;
  const inputs = node.inputs.map((name) => context.info(name));
  const window = windowOf("Conv", inputs, node.attributes, weight.shape.slice(2));
  const perGroup = (weight.shape[0] as number) / numberOf(node.attributes, "group", 1);
  const depth = weight.shape[1] as number;
  const result = context.fresh("float32", context.info(out).shape);
  const shader = new Shader();
  const base = bias === undefined ? "0f" : shader.load(bias, `${bias.offset} + f * ${bias.strides[0]}`);
  const image = shader.load(x, placeOf(x, ["n", "(first + c)", "y", "x"]));
  const filter = shader.load(weight, placeOf(weight, ["f", "c", "p", "q"]));
  const product = `for (var c = 0; c < ${depth}; c++) { part += ${image} * ${filter}; }`;
  push(context, "Conv", shader, result, [
    ...["var sum = 0f;", `let first = f / ${perGroup} * ${depth};`],
    ...overTaps(window, x.shape.slice(2) as unknown as Pair, ["var part = 0f;", product, "sum += part;"]),
    shader.store(result, "i", `sum + ${base}`),
  ]);
  context.define(out, result);
}

/** The gradient of a convolution with respect to its image: what each tap of the windows that hold an element adds to it. */
export function lowerConvTranspose(context: Context, node: GraphNode): void {
  const [x, weight] = node.inputs.map((name) => context.view(name)) as [View, View];
  const out = node.outputs[0] as string;
  const pair = (name: string, otherwise: readonly number[]) => numbersOf(node.attributes, name) ?? otherwise;
  const [strides, dilations] = [pair("strides", [1, 1]), pair("dilations", [1, 1])];
  const pads = pair("pads", [0, 0, 0, 0]);
  const [filters, depth, kernelRows, kernelColumns] = weight.shape as Four;
  const perGroup = filters / numberOf(node.attributes, "group", 1);
  const [rows, columns] = x.shape.slice(2) as [number, number];
  const result = context.fresh("float32", context.info(out).shape);
  const shader = new Shader();
  const value = shader.load(x, placeOf(x, ["n", "(first + c)", "y", "x"]));
  const filter = shader.load(weight, placeOf(weight, ["(first + c)", `(f % ${depth})`, "p", "q"]));
  const along = (name: string, from: string, tap: string, axis: 0 | 1, limit: number) => [
    `let ${name}Far = ${from} + ${pads[axis]} - ${tap} * ${dilations[axis]};`,
    `if (${name}Far < 0 || ${name}Far % ${strides[axis]} != 0) { continue; }`,
    `let ${name} = ${name}Far / ${strides[axis]};`,
    `if (${name} >= ${limit}) { continue; }`,
  ];
  push(context, "ConvTranspose", shader, result, [
    ...["var sum = 0f;", `let first = f / ${depth} * ${perGroup};`],
    ...[`for (var p = 0; p < ${kernelRows}; p++) {`, ...along("y", "row", "p", 0, rows)],
    ...[`for (var q = 0; q < ${kernelColumns}; q++) {`, ...along("x", "column", "q", 1, columns)],
    ...["var part = 0f;", `for (var c = 0; c < ${perGroup}; c++) { part += ${value} * ${filter}; }`, "sum += part;"],
    ...["}", "}", shader.store(result, "i", "sum")],
  ]);
  context.define(out, result);
}

/** MaxPool, with the places of its maxima if somebody asks for them, and AveragePool. */
export function lowerPool(context: Context, node: GraphNode): void {
  const x = context.view(node.inputs[0] as string);
  const [out, places] = node.outputs as [string, string?];
  const inputs = node.inputs.map((name) => context.info(name));
  const window = windowOf(node.op, inputs, node.attributes);
  const { shape } = context.info(out);
  const result = context.fresh("float32", shape);
  const [, channels, height, width] = x.shape as Four;
  const shader = new Shader();
  const element = shader.load(x, placeOf(x, ["n", "f", "y", "x"]));
  if (node.op === "AveragePool") {
    const all = literal(window.kernel[0] * window.kernel[1]);
    const divisor = numberOf(node.attributes, "count_include_pad", 0) === 1 ? all : "count";
    push(context, node.op, shader, result, [
      ...["var sum = 0f;", "var count = 0f;"],
      ...overTaps(window, [height, width], [`sum += ${element};`, "count += 1f;"]),
      shader.store(result, "i", `sum / ${divisor}`),
    ]);
    context.define(out, result);
    return;
  }
  const flat = `((n * ${channels} + f) * ${height} + y) * ${width} + x`;
  const indices = places === undefined ? undefined : context.fresh("int64", shape);
  const better = `if (best < 0 || here > highest) { highest = here; best = ${flat}; }`;
  push(context, node.op, shader, result, [
    ...["var highest = 0f;", "var best = -1;"],
    ...overTaps(window, [height, width], [`let here = ${element};`, better]),
    shader.store(result, "i", "highest"),
    ...(indices === undefined ? [] : [shader.store(indices, "i", "best")]),
  ]);
  context.define(out, result);
  if (indices === undefined || places === undefined) return;
  context.define(places, indices);
  const reach = [0, 1].map((axis) => ((window.kernel[axis] as number) - 1) * (window.dilations[axis] as number) + 1);
  context.maxima.set(indices.buffer, {
    ...{ pooled: shape, image: x.shape, reach: reach as unknown as Pair, strides: window.strides },
    pads: [window.pads[0], window.pads[1]],
  });
}

export function lowerBatchNormalization(context: Context, node: GraphNode): void {
  const out = node.outputs[0] as string;
  const { shape } = context.info(out);
  const [x, ...perChannel] = node.inputs.map((name) => context.view(name)) as [View, ...View[]];
  const rest = shape.slice(2);
  const channels = perChannel.map((view) => {
    const column = { ...view, shape: [shape[1] as number, ...rest.map(() => 1)] };
    return broadcastTo({ ...column, strides: [view.strides[0] as number, ...rest.map(() => 0)] }, shape);
  });
  const epsilon = literal(numberOf(node.attributes, "epsilon", 1e-5));
  const result = context.fresh("float32", shape);
  const compute = ([value, scale, bias, mean, variance]: readonly string[]) => ({
    lines: [],
    value: `(${value} - ${mean}) / sqrt(${variance} + ${epsilon}) * ${scale} + ${bias}`,
  });
  pushLoop(context, result, { leaves: [x, ...channels], dtype: "float32", compute }, node.op);
  context.define(out, result);
}
