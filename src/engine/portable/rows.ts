// Softmax and normalisation, row by row. Sums over a row keep four running sums, by the element's index in the row, and
// join them in one tree.

import { elementCount, type Shape } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numberOf } from "../../graph/operators/check.ts";
import { f32x4, get, type Local, set, v128 } from "../kernels/wasm.ts";
import { type Context, contiguous, type Expression, identityOf, loadLeaves } from "./context.ts";
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
import { outerWalk, permuted, reshaped, type View, wholeView } from "./views.ts";

const { add, sub, mul, div, max, splat } = f32x4;

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
      const { shape, strides } = outerWalk(views);
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
      const { shape, strides } = outerWalk(views);
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
