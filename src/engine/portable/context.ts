// What lowering a node needs: the values so far as views, new buffers, and steps that will become code once every buffer
// has its place. Each family of operators has a file of its own that works through this interface.

import { type DType, elementCount, type Shape, type Tensor } from "../../core/tensor.ts";
import type { GraphNode, ValueInfo } from "../../graph/model.ts";
import type { Kernel, Value } from "../../graph/operators/operator.ts";
import { type Code, get } from "../kernels/wasm.ts";
import type { FunctionBuilder } from "../kernels/wasm-module.ts";
import { copiesBy } from "./copies.ts";
import type { Gemm, ProductKind } from "./gemm.ts";
import { eachPair, loadQuad, type Pointer, type Quad, storeQuad, walk } from "./loops.ts";
import { collapsed, type View } from "./views.ts";

export type Vector = Code<"v128">;

/** What code can refer to once memory is planned. */
export interface Places {
  /** The address of a view's first element. */
  at(view: View): Code<"i32">;
  readonly scratch: Code<"i32">;
  /** Scratch behind its first bytes. */
  scratchFrom(bytes: number): Code<"i32">;
  readonly gemm: (of: ProductKind) => Gemm;
  /** Ends the run and says that this index was out of range, in the words of the step. */
  refuse(fn: FunctionBuilder, index: Code<"i32">): void;
}

interface StepBase {
  readonly what: string;
  readonly reads: readonly View[];
  readonly writes: readonly View[];
}

export interface CodeStep extends StepBase {
  readonly kind: "code";
  readonly emit: (fn: FunctionBuilder, places: Places) => void;
  readonly scratchBytes?: number;
  /** What its products are of; floats if absent. */
  readonly products?: ProductKind;
  /** The sizes that an index of this step must be below, for the message. */
  readonly indexed?: { readonly type: string; readonly size: number };
}

/** An operator's own reference kernel, called from JavaScript on the same memory. */
export interface KernelStep extends StepBase {
  readonly kind: "kernel";
  readonly kernel: Kernel;
}

export type Step = CodeStep | KernelStep;

/** A value to be computed element by element out of views that are broadcast to one shape. */
export interface Expression {
  readonly leaves: readonly View[];
  readonly dtype: DType;
  /** `loaded` has four elements of each leaf. */
  readonly compute: (fn: FunctionBuilder, loaded: readonly Vector[]) => Vector;
}

export interface Context {
  info(name: string): Value;
  view(name: string): View;
  define(name: string, view: View): void;
  /** Undefined memory of its own. */
  fresh(dtype: DType, shape: Shape): View;
  /** The same for a node's result, laid out as its reader would like it. The last axis is always contiguous. */
  result(name: string): View;
  constant(tensor: Tensor): View;
  step(step: Step): void;
  /** The input of a row operator together with the element-wise nodes that are fused into it. */
  expressionOf(root: GraphNode, value: string, shape: Shape): Expression;
}

/** Four elements of each leaf along the last axis. */
export function loadLeaves(
  fn: FunctionBuilder,
  leaves: readonly View[],
  pointers: readonly Pointer[],
  quad: Quad,
): Vector[] {
  return leaves.map((leaf, i) => {
    const stride = (leaf.strides.at(-1) ?? 0) * (leaf.dtype === "bool" ? 1 : 4);
    return loadQuad(fn, pointers[i] as Pointer, quad, stride, leaf.dtype);
  });
}

/** One loop over all elements. */
export function pushLoop(context: Context, out: View, expression: Expression, what: string): void {
  if (elementCount(out.shape) === 0) return;
  const { leaves, compute } = expression;
  context.step({
    kind: "code",
    what,
    reads: leaves,
    writes: [out],
    emit: (fn, places) => {
      const views = [out, ...leaves];
      const { shape, strides } = collapsed(views);
      const outer = strides.map((each) => each.slice(0, -1));
      walk(
        fn,
        shape.slice(0, -1),
        outer,
        views.map((view) => places.at(view)),
        (pointers) =>
          eachPair(fn, shape.at(-1) ?? 1, (quads) => {
            const values = quads.map((quad) => {
              const loaded = leaves.map((leaf, i) => {
                const pointer = pointers[i + 1] as (typeof pointers)[number];
                return get(fn.keep(loadQuad(fn, pointer, quad, strides[i + 1]?.at(-1) ?? 0, leaf.dtype)));
              });
              return get(fn.keep(compute(fn, loaded)));
            });
            const stride = strides[0]?.at(-1) ?? 4;
            const target = pointers[0] as (typeof pointers)[number];
            for (const [i, quad] of quads.entries())
              storeQuad(fn, target, quad, stride, out.dtype, values[i] as Vector);
          }),
      );
    },
  });
}

export function identityOf(view: View): Expression {
  return { leaves: [view], dtype: view.dtype, compute: (_fn, [x]) => x as Vector };
}

export const { pushCopy, contiguous, stored } = copiesBy<Context, Expression>(identityOf, pushLoop);

export function infoOf(context: Context, names: readonly string[]): ValueInfo[] {
  return names.map((name) => context.info(name));
}
