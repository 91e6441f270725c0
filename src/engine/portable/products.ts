// MatMul, FusedMatMul and Gemm. Transposed operands and heads of attention are only other strides for the packing; a bias
// is the base that a tile's sums are added to.

import { elementCount, type Shape } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numberOf } from "../../graph/operators/check.ts";
import { addI32, f32, f32x4, get, i32 } from "../kernels/wasm.ts";
import { type Context, pushLoop, type Vector } from "./context.ts";
import { callGemm, gemmScratchBytes, type Operand, type ProductCall } from "./gemm.ts";
import { walk } from "./loops.ts";
import { singleRowScratchBytes, singleRowsMax } from "./single-row.ts";
import { broadcastTo, byteStrides, collapsed, reshaped, type View } from "./views.ts";

export function lowerProduct(context: Context, node: GraphNode): boolean {
  const [nameA, nameB, nameC] = node.inputs as [string, string, string?];
  const out = node.outputs[0] as string;
  const info = context.info(out);
  if (info.dtype !== "float32") return false;
  const a = turned(context.view(nameA), numberOf(node.attributes, "transA", 0) === 1);
  const b = turned(context.view(nameB), numberOf(node.attributes, "transB", 0) === 1);
  const depth = a.shape.at(-1) as number;
  if (depth === 0 || elementCount(info.shape) === 0) return false;
  const c = context.result(out);
  const base = nameC === undefined ? undefined : baseFor(context, node, context.view(nameC), c);
  pushProduct(context, node.op, { a, b, c, base }, numberOf(node.attributes, "alpha", 1));
  context.define(out, c);
  return true;
}

/** IntegerMatMul: the same loops around tiles that add up in doubles, where sums of 256 products of whole numbers are exact. */
export function lowerIntegerProduct(context: Context, node: GraphNode): boolean {
  const [nameA, nameB] = node.inputs as [string, string];
  const out = node.outputs[0] as string;
  const [a, b] = [context.view(nameA), context.view(nameB)];
  if (elementCount(a.shape) === 0 || elementCount(b.shape) === 0) return false;
  const c = context.result(out);
  pushProduct(context, node.op, { a, b, c }, 1, "integers");
  context.define(out, c);
  return true;
}

function turned(view: View, transposed: boolean): View {
  if (!transposed) return view;
  const swap = <T>(list: readonly T[]) => [...list.slice(0, -2), ...list.slice(-2).reverse()];
  return { ...view, shape: swap(view.shape), strides: swap(view.strides) };
}

/** The third input where a tile can add it; else it is written to the result first. */
function baseFor(context: Context, node: GraphNode, given: View, c: View): View {
  const beta = numberOf(node.attributes, "beta", 1);
  const base = broadcastTo(given, c.shape);
  const isUnit = base.strides.at(-1) === 1 || c.shape.at(-1) === 1;
  if (beta === 1 && isUnit) return base;
  const scaled = (loaded: readonly Vector[]) => f32x4.mul(loaded[0] as Vector, f32x4.splat(beta));
  pushLoop(context, c, { leaves: [base], dtype: "float32", compute: (_fn, loaded) => scaled(loaded) }, "base");
  return c;
}

export interface Matrices {
  readonly a: View;
  readonly b: View;
  readonly c: View;
  readonly base?: View | undefined;
}

/** c = base + alpha a b for stacks of matrices that broadcast. */
export function pushProduct(
  context: Context,
  what: string,
  given: Matrices,
  alpha: number,
  of: "floats" | "integers" = "floats",
): void {
  const { a, b, c, base } = oneMatrix(given) ?? given;
  const [rows, columns] = c.shape.slice(-2) as [number, number];
  const depth = a.shape.at(-1) as number;
  const stack = c.shape.slice(0, -2);
  // Weights that few rows can read as they lie, one row after the other.
  const kind = of === "floats" && rows <= singleRowsMax(byteStrides(b)) ? "row" : of;
  const operands = [broadcastTo(a, [...stack, rows, depth]), broadcastTo(b, [...stack, depth, columns]), c];
  if (base !== undefined) operands.push(broadcastTo(base, c.shape));
  context.step({
    kind: "code",
    what,
    reads: base === undefined ? [a, b] : [a, b, base],
    writes: [c],
    scratchBytes: kind === "row" ? singleRowScratchBytes : gemmScratchBytes(columns),
    products: kind,
    emit: (fn, places) => {
      const inner = operands.map((view) => {
        const [rowStride, columnStride] = byteStrides(view).slice(-2) as [number, number];
        return { rowStride, columnStride };
      });
      const outer = collapsed(operands.map((view) => withoutMatrix(view)));
      walk(
        fn,
        outer.shape,
        outer.strides,
        operands.map((view) => places.at(view)),
        (pointers) => {
          const [left, right, result, onto] = inner.map((strides, i) => ({
            pointer: get(pointers[i] as (typeof pointers)[number]),
            ...strides,
          })) as [Placed, Placed, Placed, Placed?];
          const sizes = { rows, columns, depth, alpha: f32(alpha), scratch: places.scratch };
          const product = { a: left, b: right, c: result, ...(onto && { base: onto }), ...sizes };
          const parts = kind === "row" ? Array.from({ length: rows }, (_, row) => rowOf(product, row)) : [product];
          fn.emit(...parts.map((part) => callGemm(places.gemm(kind), part)));
        },
      );
    },
  });
}

interface Placed {
  readonly pointer: ReturnType<typeof get<"i32">>;
  readonly rowStride: number;
  readonly columnStride: number;
}

function rowOf(product: ProductCall, row: number): ProductCall {
  const at = <T extends Omit<Operand, "columnStride">>(operand: T): T =>
    row === 0 ? operand : { ...operand, pointer: addI32(operand.pointer, i32(row * operand.rowStride)) };
  const { a, base, c } = product;
  return { ...product, a: at(a), c: at(c), ...(base && { base: at(base) }), rows: 1 };
}

function withoutMatrix(view: View): View {
  return { ...view, shape: view.shape.slice(0, -2), strides: view.strides.slice(0, -2) };
}

/** A stack on the left of one matrix is one taller matrix, where strides allow it. */
function oneMatrix({ a, b, c, base }: Matrices): Matrices | undefined {
  if (b.shape.length !== 2 || a.shape.length === 2 || base !== undefined) return undefined;
  const flat = (shape: Shape) => [elementCount(shape.slice(0, -1)), shape.at(-1) as number];
  const [tallA, tallC] = [reshaped(a, flat(a.shape)), reshaped(c, flat(c.shape))];
  return tallA && tallC && { a: tallA, b, c: tallC };
}
