// Copies as the loop over elements makes them, whatever an engine's loop is made of.

import type { DType, Shape } from "../../core/tensor.ts";
import { isContiguous, type View } from "./views.ts";

/** Undefined memory of its own. */
interface Memory {
  fresh(dtype: DType, shape: Shape): View;
}

type PushLoop<C, E> = (context: C, out: View, expression: E, what: string) => void;

export function copiesBy<C extends Memory, E extends { readonly dtype: DType }>(
  identityOf: (view: View) => E,
  pushLoop: PushLoop<C, E>,
) {
  const pushCopy = (context: C, out: View, of: View, what = "copy"): void =>
    pushLoop(context, out, identityOf(of), what);
  return {
    pushCopy,
    /** A view of the same elements, one after the other: itself, or a copy. */
    contiguous: (context: C, view: View): View => {
      if (isContiguous(view)) return view;
      const copy = context.fresh(view.dtype, view.shape);
      pushCopy(context, copy, view);
      return copy;
    },
    /** The expression's elements in memory. */
    stored: (context: C, expression: E, shape: Shape): View => {
      const out = context.fresh(expression.dtype, shape);
      pushLoop(context, out, expression, "stored");
      return out;
    },
  };
}
