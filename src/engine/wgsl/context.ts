// What lowering a node to shaders needs: values so far as views, new buffers, dispatches. And the loop over elements, of which most
// dispatches are made. Each family of operators has a file of its own that works through this interface.

import { type DType, elementCount, type Shape } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import type { Value } from "../../graph/operators/operator.ts";
import { copiesBy } from "../portable/copies.ts";
import { collapsed, isContiguous, type View } from "../portable/views.ts";
import { type Dispatch, groupsFor, Shader, threads } from "./shader.ts";

/** A value to be computed element by element out of views that are broadcast to one shape. */
export interface Expression {
  readonly leaves: readonly View[];
  readonly dtype: DType;
  /** Statements in front of the value, and the value, out of the leaves' elements. */
  readonly compute: (loaded: readonly string[]) => { readonly lines: readonly string[]; readonly value: string };
}

export interface Context {
  info(name: string): Value;
  view(name: string): View;
  define(name: string, view: View): void;
  /** Undefined memory of its own. */
  fresh(dtype: DType, shape: Shape): View;
  dispatch(dispatch: Dispatch): void;
  /** The input of a row operator together with the element-wise nodes that are fused into it. */
  expressionOf(root: GraphNode, value: string, shape: Shape): Expression;
  /** Refuses indices of a feed that are not below `size`, in the operator's words, where they are seen before a run. */
  indexed(indices: View, type: string, size: number): void;
  /** What a device knows of a view beyond its elements. */
  readonly maxima: Map<number, MaximaOf>;
}

/** A buffer that holds the places of maxima of windows: the gradient finds them there. */
export interface MaximaOf {
  readonly pooled: Shape;
  readonly image: Shape;
  /** Windows that hold row or column i begin at most `reach - 1` before it. */
  readonly reach: readonly [number, number];
  readonly strides: readonly [number, number];
  readonly pads: readonly [number, number];
}

export interface Places {
  readonly lines: readonly string[];
  /** Of each view, where its element lies in its buffer. */
  readonly at: readonly string[];
}

/** Where the element of a number is, in views of one shape. `name` makes names that no other walk has. */
export function placesAt(views: readonly View[], index: string, name: string): Places {
  const { shape, strides } = collapsed(views.map((view) => ({ ...view, dtype: "float32" as const })));
  const lines: string[] = [];
  const coordinates: string[] = [];
  let rest = index;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const isUsed = strides.some((each) => each[axis] !== 0);
    if (axis === 0) coordinates[axis] = rest;
    else {
      if (isUsed) lines.push(`let ${name}c${axis} = ${rest} % ${shape[axis]};`);
      coordinates[axis] = `${name}c${axis}`;
      lines.push(`let ${name}r${axis} = ${rest} / ${shape[axis]};`);
      rest = `${name}r${axis}`;
    }
  }
  const at = views.map(({ offset }, i) => {
    const terms = shape.flatMap((_, axis) => {
      const stride = (strides[i]?.[axis] as number) / 4;
      return stride === 0 ? [] : [stride === 1 ? (coordinates[axis] as string) : `${coordinates[axis]} * ${stride}`];
    });
    return [...terms, ...(offset !== 0 || terms.length === 0 ? [String(offset)] : [])].join(" + ");
  });
  return { lines, at };
}

/** The leaves' elements at these places, and the expression's value of them. */
export function valueAt(shader: Shader, { leaves, compute }: Expression, at: readonly string[], name: string): Valued {
  const loaded = leaves.map((_, i) => `${name}x${i}`);
  const loads = leaves.map((leaf, i) => `let ${loaded[i]} = ${shader.load(leaf, at[i] as string)};`);
  const { lines, value } = compute(loaded);
  return { lines: [...loads, ...lines], value };
}

export interface Valued {
  readonly lines: readonly string[];
  readonly value: string;
}

/** One thread for each element. */
export function pushLoop(context: Context, out: View, expression: Expression, what: string): void {
  const count = elementCount(out.shape);
  if (count === 0) return;
  const shader = new Shader();
  const views = [out, ...expression.leaves];
  const { lines, at } = placesAt(views, "i", "");
  const { lines: computing, value } = valueAt(shader, expression, at.slice(1), "");
  const store = shader.store(out, at[0] as string, value);
  // A whole buffer that is walked in its order: the code is the same whatever its size.
  const isWhole = lines.length === 0 && out.offset === 0 && isContiguous(out);
  const length = isWhole ? shader.length(out) : String(count);
  const body = [`let i = group * ${threads} + lane;`, `if (i >= ${length}) { return; }`, ...lines, ...computing, store];
  context.dispatch(shader.finish(what, body, [threads, 1], groupsFor(Math.ceil(count / threads))));
}

export function identityOf(view: View): Expression {
  return { leaves: [view], dtype: view.dtype, compute: ([x]) => ({ lines: [], value: x as string }) };
}

export const { pushCopy, contiguous, stored } = copiesBy<Context, Expression>(identityOf, pushLoop);
