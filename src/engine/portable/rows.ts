// Operators along rows: softmax, normalisation, reductions. Sums over a row keep four running sums, by the element's index
// in the row, and join them in one tree; sums over rows add them in order. Long sums are made in blocks.

import { elementCount, type Shape } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numberOf, numbersOf } from "../../graph/operators/check.ts";
import { addI32, f32x4, get, i32, type Local, set, v128 } from "../wasm.ts";
import type { FunctionBuilder } from "../wasm-module.ts";
import { type Context, contiguous, type Expression, identityOf, stored, type Vector } from "./context.ts";
import { expOf, logOf } from "./functions.ts";
import {
  acrossLanes,
  eachPair,
  eachQuad,
  loadQuad,
  onlyInRow,
  type Pointer,
  type Quad,
  storeQuad,
  walk,
} from "./loops.ts";
import { collapsed, innerView, permuted, reshaped, type View, wholeView } from "./views.ts";

const { add, sub, mul, div, max, splat } = f32x4;

/** The axes in front of the last `inner`, as one loop. */
function outerWalk(views: readonly View[], inner: number) {
  return collapsed(
    views.map((view) => {
      const end = view.shape.length - inner;
      return { ...view, shape: view.shape.slice(0, end), strides: view.strides.slice(0, end) };
    }),
  );
}

const rowStride = (view: View) => 4 * (view.strides.at(-1) ?? 0);

/** Softmax and LogSoftmax along the last axis, with what is fused into their input. */
export function lowerSoftmax(context: Context, node: GraphNode): boolean {
  const [name, out] = [node.inputs[0] as string, node.outputs[0] as string];
  const { shape, dtype } = context.info(name);
  const axis = numberOf(node.attributes, "axis", -1);
  const length = shape.at(-1) ?? 1;
  if (dtype !== "float32" || shape.length === 0 || elementCount(shape) === 0) return false;
  if (axis !== -1 && axis !== shape.length - 1) return softmaxElsewhere(context, node, axis);
  const expression = context.expressionOf(node, name, shape);
  const result = context.result(out);
  pushSoftmax(context, node.op === "LogSoftmax", expression, result, length);
  context.define(out, result);
  return true;
}

/** Along another axis: the same on a view that has it last. */
function softmaxElsewhere(context: Context, node: GraphNode, axis: number): boolean {
  const [name, out] = [node.inputs[0] as string, node.outputs[0] as string];
  const { shape } = context.info(name);
  const at = axis < 0 ? axis + shape.length : axis;
  const perm = [...shape.keys()].filter((each) => each !== at).concat(at);
  const turned = permuted(context.view(name), perm);
  const result = context.fresh("float32", turned.shape);
  pushSoftmax(context, node.op === "LogSoftmax", identityOf(turned), result, shape[at] as number);
  context.define(
    out,
    permuted(
      result,
      [...perm.keys()].map((each) => perm.indexOf(each)),
    ),
  );
  return true;
}

function pushSoftmax(context: Context, isLog: boolean, expression: Expression, out: View, length: number): void {
  const { leaves, compute } = expression;
  context.step({
    kind: "code",
    what: isLog ? "LogSoftmax" : "Softmax",
    reads: leaves,
    writes: [out],
    emit: (fn, places) => {
      const views = [out, ...leaves];
      const { shape, strides } = outerWalk(views, 1);
      const starts = views.map((view) => places.at(view));
      walk(fn, shape, strides, starts, ([target, ...sources]) => {
        const to = target as Pointer;
        const again = (quad: Quad) => loadQuad(fn, to, quad, 4, "float32");
        const [highest, total] = [fn.keep(splat(Number.NEGATIVE_INFINITY)), fn.keep(splat(0))];
        const store = (quads: readonly Quad[], values: readonly Local<"v128">[]) => {
          for (const [i, quad] of quads.entries())
            storeQuad(fn, to, quad, 4, "float32", get(values[i] as Local<"v128">));
        };
        eachPair(fn, length, (quads) => {
          const values = quads.map((quad) => fn.keep(compute(fn, loadLeaves(fn, leaves, sources, quad))));
          store(quads, values);
          for (const [i, quad] of quads.entries()) {
            const x = onlyInRow(get(values[i] as Local<"v128">), quad, Number.NEGATIVE_INFINITY);
            fn.emit(set(highest, max(get(highest), x)));
          }
        });
        fn.emit(set(highest, acrossLanes(fn, get(highest), max)));
        eachPair(fn, length, (quads) => {
          const powers = quads.map((quad) => fn.keep(expOf(fn, sub(again(quad), get(highest)))));
          if (!isLog) store(quads, powers);
          for (const [i, quad] of quads.entries())
            fn.emit(set(total, add(get(total), onlyInRow(get(powers[i] as Local<"v128">), quad, 0))));
        });
        fn.emit(set(total, acrossLanes(fn, get(total), add)));
        if (isLog) fn.emit(set(total, logOf(fn, get(total))));
        else fn.emit(set(total, div(splat(1), get(total))));
        eachPair(fn, length, (quads) => {
          const values = quads.map((quad) =>
            fn.keep(isLog ? sub(sub(again(quad), get(highest)), get(total)) : mul(again(quad), get(total))),
          );
          store(quads, values);
        });
      });
    },
  });
}

function loadLeaves(fn: FunctionBuilder, leaves: readonly View[], pointers: readonly Pointer[], quad: Quad): Vector[] {
  return leaves.map((leaf, i) => {
    const stride = (leaf.strides.at(-1) ?? 0) * (leaf.dtype === "bool" ? 1 : 4);
    return loadQuad(fn, pointers[i] as Pointer, quad, stride, leaf.dtype);
  });
}

/** LayerNormalization -> y, mean?, inverse deviation?. */
export function lowerLayerNormalization(context: Context, node: GraphNode): boolean {
  const [nameX, nameScale, nameBias] = node.inputs as [string, string, string?];
  const { shape, dtype } = context.info(nameX);
  const axis = numberOf(node.attributes, "axis", -1);
  const first = axis < 0 ? axis + shape.length : axis;
  const width = elementCount(shape.slice(first));
  if (dtype !== "float32" || elementCount(shape) === 0) return false;
  const rows: Shape = [...shape.slice(0, first), width];
  const x = reshaped(context.view(nameX), rows) ?? (reshaped(contiguous(context, context.view(nameX)), rows) as View);
  const affine = [nameScale, nameBias].flatMap((name) =>
    name === undefined ? [] : [reshaped(contiguous(context, context.view(name)), [width]) as View],
  );
  const y = context.fresh("float32", rows);
  const statistics = node.outputs.slice(1).map((name) => context.fresh("float32", context.info(name).shape));
  pushNormalization(context, { x, affine, y, statistics }, width, numberOf(node.attributes, "epsilon", 1e-5));
  context.define(node.outputs[0] as string, reshaped(y, shape) as View);
  for (const [i, name] of node.outputs.slice(1).entries()) context.define(name, statistics[i] as View);
  return true;
}

interface Normalization {
  /** [.., width] */
  readonly x: View;
  /** Scale, and perhaps bias: [width]. */
  readonly affine: readonly View[];
  readonly y: View;
  readonly statistics: readonly View[];
}

function pushNormalization(context: Context, given: Normalization, width: number, epsilon: number): void {
  const { x, affine, y, statistics } = given;
  context.step({
    kind: "code",
    what: "LayerNormalization",
    reads: [x, ...affine],
    writes: [y, ...statistics],
    emit: (fn, places) => {
      const rows = x.shape.slice(0, -1);
      const narrow = statistics.map((view) => ({
        ...wholeView(view.buffer, "float32", [...rows, 1]),
        offset: view.offset,
      }));
      const views = [x, y, ...narrow];
      const { shape, strides } = outerWalk(views, 1);
      const [scale, bias] = affine.map((view) => fn.keep(places.at(view)));
      const starts = views.map((view) => places.at(view));
      walk(fn, shape, strides, starts, ([from, to, ...extras]) => {
        const input = (quad: Quad) => loadQuad(fn, from as Pointer, quad, rowStride(x), "float32");
        const sum = fn.keep(splat(0));
        eachQuad(fn, width, (quad) => fn.emit(set(sum, add(get(sum), onlyInRow(input(quad), quad, 0)))));
        const mean = fn.keep(div(acrossLanes(fn, get(sum), add), splat(width)));
        fn.emit(set(sum, splat(0)));
        eachQuad(fn, width, (quad) => {
          const centred = fn.keep(sub(input(quad), get(mean)));
          fn.emit(set(sum, add(get(sum), onlyInRow(mul(get(centred), get(centred)), quad, 0))));
        });
        const variance = div(acrossLanes(fn, get(sum), add), splat(width));
        const inverse = fn.keep(div(splat(1), f32x4.sqrt(add(variance, splat(epsilon)))));
        eachQuad(fn, width, (quad) => {
          const normal = mul(sub(input(quad), get(mean)), get(inverse));
          const scaled = mul(normal, loadQuad(fn, scale as Pointer, quad, 4, "float32"));
          const value = bias === undefined ? scaled : add(scaled, loadQuad(fn, bias, quad, 4, "float32"));
          storeQuad(fn, to as Pointer, quad, 4, "float32", value);
        });
        for (const [i, pointer] of extras.entries())
          fn.emit(v128.storeLane(get(pointer), get(i === 0 ? mean : inverse), 0));
      });
    },
  });
}

/** Elements of a row, and rows of a column, that are summed before their sum joins the others. */
const blockElements = 1024;
const blockRows = 128;

interface Reduction {
  readonly combine: (a: Vector, b: Vector) => Vector;
  readonly neutral: number;
  readonly finish: (value: Vector) => Vector;
}

function reductionOf(op: string, count: number): Reduction {
  if (op === "ReduceMax") return { combine: max, neutral: Number.NEGATIVE_INFINITY, finish: (value) => value };
  return { combine: add, neutral: 0, finish: (value) => (op === "ReduceMean" ? div(value, splat(count)) : value) };
}

/** ReduceSum, ReduceMean and ReduceMax over any axes, with what is fused into their input. */
export function lowerReduction(context: Context, node: GraphNode): boolean {
  const [name, out] = [node.inputs[0] as string, node.outputs[0] as string];
  const { shape, dtype } = context.info(name);
  if (dtype !== "float32" || elementCount(shape) === 0) return false;
  const given = numbersOf(node.attributes, "axes");
  const axes = new Set(given?.length ? given.map((axis) => (axis < 0 ? axis + shape.length : axis)) : shape.keys());
  const reduced = [...shape.keys()].filter((axis) => axes.has(axis));
  const kept = [...shape.keys()].filter((axis) => !axes.has(axis));
  const isLeading = kept.length > 0 && reduced.every((axis, i) => axis === i);
  const perm = isLeading ? [...reduced, ...kept] : [...kept, ...reduced];
  const turned = turnedExpression(
    context,
    context.expressionOf(node, name, shape),
    shape,
    perm,
    reduced.length,
    isLeading,
  );
  const count = elementCount(reduced.map((axis) => shape[axis] as number));
  const result = context.fresh("float32", context.info(out).shape);
  const rule = reductionOf(node.op, count);
  if (isLeading) pushColumns(context, node.op, turned, result, rule);
  else pushRows(context, node.op, turned, result, rule);
  context.define(out, result);
  return true;
}

/** Leaves as [rows, columns] of a sum over rows, or as [kept.., reduced] with the reduced axes as one. */
function turnedExpression(
  context: Context,
  expression: Expression,
  shape: Shape,
  perm: readonly number[],
  reducedAxes: number,
  isLeading: boolean,
): Expression {
  const sizes = perm.map((axis) => shape[axis] as number);
  const keptAxes = sizes.length - reducedAxes;
  const target = isLeading
    ? [elementCount(sizes.slice(0, reducedAxes)), elementCount(sizes.slice(reducedAxes))]
    : [...sizes.slice(0, keptAxes), elementCount(sizes.slice(keptAxes))];
  const leaves = expression.leaves.map((leaf) => joined(permuted(leaf, perm), target, isLeading ? 0 : keptAxes));
  if (leaves.every((leaf) => leaf !== undefined)) return { ...expression, leaves: leaves as View[] };
  const flat = stored(context, { ...expression, leaves: expression.leaves.map((leaf) => permuted(leaf, perm)) }, sizes);
  return identityOf(reshaped(flat, target) as View);
}

/** The view with everything after the first `outer` axes as in `target`, or undefined. */
function joined(view: View, target: Shape, outer: number): View | undefined {
  const inner = reshaped(innerView(view, outer), target.slice(outer));
  return inner && { ...view, shape: target, strides: [...view.strides.slice(0, outer), ...inner.strides] };
}

/** Over the last axis. */
function pushRows(context: Context, what: string, { leaves, compute }: Expression, out: View, rule: Reduction): void {
  const length = leaves[0]?.shape.at(-1) as number;
  context.step({
    kind: "code",
    what,
    reads: leaves,
    writes: [out],
    emit: (fn, places) => {
      const rows = (leaves[0] as View).shape.slice(0, -1);
      const flat = { ...wholeView(out.buffer, "float32", [...rows, 1]), offset: out.offset };
      const views = [flat, ...leaves];
      const { shape, strides } = outerWalk(views, 1);
      const starts = views.map((view) => places.at(view));
      walk(fn, shape, strides, starts, ([to, ...sources]) => {
        const total = fn.keep(splat(rule.neutral));
        const sum = fn.local("v128");
        const block = (pointers: readonly Pointer[], elements: number) => {
          fn.emit(set(sum, splat(rule.neutral)));
          eachQuad(fn, elements, (quad) => {
            const value = compute(fn, loadLeaves(fn, leaves, pointers, quad));
            fn.emit(set(sum, rule.combine(get(sum), onlyInRow(value, quad, rule.neutral))));
          });
          fn.emit(set(total, rule.combine(get(total), get(sum))));
        };
        inBlocks(fn, leaves, sources, length, blockElements, -1, block);
        fn.emit(v128.storeLane(get(to as Pointer), rule.finish(acrossLanes(fn, get(total), rule.combine)), 0));
      });
    },
  });
}

/** Calls `body` for whole blocks in a loop and for the rest; pointers move along `axis`. */
function inBlocks(
  fn: FunctionBuilder,
  leaves: readonly View[],
  from: readonly Pointer[],
  length: number,
  block: number,
  axis: number,
  body: (pointers: readonly Pointer[], count: number) => void,
): void {
  const strides = leaves.map((leaf) => (leaf.strides.at(axis) ?? 0) * (leaf.dtype === "bool" ? 1 : 4));
  const whole = Math.floor(length / block);
  const starts = from.map((pointer) => get(pointer));
  if (whole > 0)
    walk(
      fn,
      [whole],
      strides.map((stride) => [stride * block]),
      starts,
      (pointers) => body(pointers, block),
    );
  if (length % block === 0) return;
  const rest = from.map((pointer, i) => fn.keep(addI32(get(pointer), i32((strides[i] as number) * block * whole))));
  body(rest, length % block);
}

/** Columns that are summed together: two lines of cache of each row. */
const stripVectors = 8;

/** Over the rows of [rows, columns]. */
function pushColumns(
  context: Context,
  what: string,
  { leaves, compute }: Expression,
  out: View,
  rule: Reduction,
): void {
  const [rows, columns] = (leaves[0] as View).shape as [number, number];
  context.step({
    kind: "code",
    what,
    reads: leaves,
    writes: [out],
    emit: (fn, places) => {
      const width = 4 * stripVectors;
      const views = [wholeView(out.buffer, "float32", [columns]), ...leaves];
      const starts = [places.at(out), ...leaves.map((leaf) => places.at(leaf))];
      const steps = views.map((view) => (view.strides.at(-1) ?? 0) * (view.dtype === "bool" ? 1 : 4));
      const strip = (pointers: readonly Pointer[], count: number) => {
        const [to, ...sources] = pointers as [Pointer, ...Pointer[]];
        emitStrip(fn, { leaves, compute, rule, rows }, to, sources, count);
      };
      const whole = Math.floor(columns / width);
      if (whole > 0)
        walk(
          fn,
          [whole],
          steps.map((step) => [step * width]),
          starts,
          (pointers) => strip(pointers, width),
        );
      if (columns % width === 0) return;
      const rest = starts.map((start, i) => fn.keep(addI32(start, i32((steps[i] as number) * width * whole))));
      strip(rest, columns % width);
    },
  });
}

interface Strip {
  readonly leaves: readonly View[];
  readonly compute: Expression["compute"];
  readonly rule: Reduction;
  readonly rows: number;
}

function emitStrip(fn: FunctionBuilder, strip: Strip, to: Pointer, sources: readonly Pointer[], count: number): void {
  const { leaves, compute, rule, rows } = strip;
  const quads = Array.from({ length: Math.ceil(count / 4) }, (_, i): Quad => {
    const offset = fn.keep(i32(16 * i));
    return { offset, count: Math.min(4, count - 4 * i) };
  });
  const totals = quads.map(() => fn.keep(splat(rule.neutral)));
  const sums = quads.map(() => fn.local("v128"));
  inBlocks(fn, leaves, sources, rows, blockRows, 0, (pointers, blockCount) => {
    for (const sum of sums) fn.emit(set(sum, splat(rule.neutral)));
    const strides = leaves.map((leaf) => [(leaf.strides[0] ?? 0) * (leaf.dtype === "bool" ? 1 : 4)]);
    const starts = pointers.map((pointer) => get(pointer));
    walk(fn, [blockCount], strides, starts, (row) => {
      for (const [i, quad] of quads.entries()) {
        const sum = sums[i] as Local<"v128">;
        fn.emit(set(sum, rule.combine(get(sum), compute(fn, loadLeaves(fn, leaves, row, quad)))));
      }
    });
    for (const [i, total] of totals.entries())
      fn.emit(set(total, rule.combine(get(total), get(sums[i] as Local<"v128">))));
  });
  for (const [i, quad] of quads.entries())
    storeQuad(fn, to, quad, 4, "float32", rule.finish(get(totals[i] as Local<"v128">)));
}
