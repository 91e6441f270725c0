// A sum along an axis by halves: the upper half is added to the lower one until one is left. What exceeds a power of two is folded in
// first. The order is in the graph, so that no engine chooses it.

import type { Value } from "../../graph/builder.ts";
import type { Builder } from "../../graph/operators/operator.ts";

/** The axis stays, with size 1. */
export function treeSum(builder: Builder, x: Value, axis: number): Value {
  const size = x.shape[axis] as number;
  const split = (value: Value, sizes: readonly number[]) =>
    builder.ops("Split", [value], { axis, split: sizes }, sizes.length) as [Value, Value, Value?];
  let half = 2 ** Math.floor(Math.log2(size));
  let sum = x;
  if (half < size) {
    const [head, middle, tail] = split(x, [size - half, 2 * half - size, size - half]);
    sum = builder.op("Concat", [builder.op("Add", [head, tail as Value]), middle], { axis });
  }
  for (half /= 2; half >= 1; half /= 2) sum = builder.op("Add", split(sum, [half, half]) as [Value, Value]);
  return sum;
}
