// Sums, means and maxima over axes, with what is fused into their input. Over a row there are four running sums, by the
// element's index, joined in one tree; over rows they are added in order. Long sums are made in blocks, so that rounding
// does not pile up. All of it follows from the logical order of elements, never from where they lie.

import { elementCount, type Shape } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numbersOf } from "../../graph/operators/check.ts";
import { addI32, type Code, f32x4, get, i32, type Local, set, v128 } from "../kernels/wasm.ts";
import type { FunctionBuilder } from "../kernels/wasm-module.ts";
import { type Context, type Expression, identityOf, loadLeaves, stored, type Vector } from "./context.ts";
import { acrossLanes, eachQuad, onlyInRow, type Pointer, type Quad, storeQuad, walk } from "./loops.ts";
import { innerView, outerWalk, permuted, reshaped, type View, wholeView } from "./views.ts";

const { add, div, max, splat } = f32x4;

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
      const { shape, strides } = outerWalk(views);
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
        inBlocks(fn, leaves, sources.map(get), length, blockElements, -1, block);
        fn.emit(v128.storeLane(get(to as Pointer), rule.finish(acrossLanes(fn, get(total), rule.combine)), 0));
      });
    },
  });
}

/** Calls `body` for whole blocks in a loop and for the rest; pointers move along `axis` of each view from its start. */
function inBlocks(
  fn: FunctionBuilder,
  views: readonly View[],
  starts: readonly Code<"i32">[],
  length: number,
  block: number,
  axis: number,
  body: (pointers: readonly Pointer[], count: number) => void,
): void {
  const strides = views.map((view) => (view.strides.at(axis) ?? 0) * (view.dtype === "bool" ? 1 : 4));
  const whole = Math.floor(length / block);
  if (whole > 0)
    walk(
      fn,
      [whole],
      strides.map((stride) => [stride * block]),
      starts,
      (pointers) => body(pointers, block),
    );
  if (length % block === 0) return;
  const rest = starts.map((start, i) => fn.keep(addI32(start, i32((strides[i] as number) * block * whole))));
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
      const strip = (pointers: readonly Pointer[], count: number) => {
        const [to, ...sources] = pointers as [Pointer, ...Pointer[]];
        emitStrip(fn, { leaves, compute, rule, rows }, to, sources, count);
      };
      inBlocks(fn, views, starts, columns, width, -1, strip);
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
  inBlocks(fn, leaves, sources.map(get), rows, blockRows, 0, (pointers, blockCount) => {
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
