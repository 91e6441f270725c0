// Where the maximum of each window of a MaxPool lies, in operators that GPUs have: the provider gives no indices. Windows that
// overlap are refused, since the gradient would then add in an order that differs from run to run.

import { fail } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { GraphBuilder, Value } from "../../graph/builder.ts";
import { onnxTypeOf } from "../../graph/operators/elements/cast.ts";
import { type Window, windowOf } from "../../graph/operators/images/pooling.ts";
import type { Attributes } from "../../graph/operators/operator.ts";

/** Below every activation, and finite: padding is never the maximum of a window that holds an image. */
const nothing = -3e38;

/** `pooled`: what MaxPool gives for `x`. Flat indices as int32; the first of equal maxima, in index order. */
export function maximaOf(builder: GraphBuilder, x: Value, pooled: Value, attributes: Attributes): Value {
  const window = windowOf("MaxPool", [x], attributes);
  if (overlaps(window)) fail("unimplemented", "the gradient of a MaxPool whose windows overlap does not run on GPUs");
  const padded = pad(builder, x, window);
  const width = x.shape[3] as number;
  let offset: Value | undefined;
  for (const { row, column } of taps(window).reverse()) {
    const here = builder.scalar(row * width + column);
    const isMaximum = builder.op("Equal", [sliceAt(builder, padded, window, row, column), pooled]);
    offset = builder.op("Where", [isMaximum, here, offset ?? here]);
  }
  if (offset === undefined) return fail("internal", "a window has places");
  const whole = builder.op("Cast", [offset], { to: onnxTypeOf("int32") });
  return builder.op("Add", [builder.op("Add", [whole, corners(builder, x, window)]), planes(builder, x)]);
}

function overlaps({ kernel, strides, dilations }: Window): boolean {
  return [0, 1].some((axis) => {
    const reach = ((kernel[axis] as number) - 1) * (dilations[axis] as number) + 1;
    return reach > (strides[axis] as number);
  });
}

/** Places of a window, from its corner. */
function taps({ kernel: [height, width], dilations }: Window): { row: number; column: number }[] {
  const places: { row: number; column: number }[] = [];
  for (let i = 0; i < height; i++)
    for (let j = 0; j < width; j++) places.push({ row: i * dilations[0], column: j * dilations[1] });
  return places;
}

function pad(builder: GraphBuilder, x: Value, { pads: [top, left, bottom, right] }: Window): Value {
  if (top + left + bottom + right === 0) return x;
  return builder.op("Pad", [x], { pads: [0, 0, top, left, 0, 0, bottom, right], value: nothing });
}

function sliceAt(
  builder: GraphBuilder,
  padded: Value,
  { strides, output }: Window,
  row: number,
  column: number,
): Value {
  const ends = [row + (output[0] - 1) * strides[0] + 1, column + (output[1] - 1) * strides[1] + 1];
  return builder.op("Slice", [padded], { starts: [row, column], ends, axes: [2, 3], steps: [...strides] });
}

/** Where windows begin within a plane of the image, padding not counted. */
function corners(builder: GraphBuilder, x: Value, { output, strides, pads }: Window): Value {
  const [rows, columns] = output;
  const data = new Int32Array(rows * columns);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      data[row * columns + column] =
        (row * strides[0] - pads[0]) * (x.shape[3] as number) + column * strides[1] - pads[1];
  return builder.constant(int32([1, 1, rows, columns], data));
}

/** Where planes begin. */
function planes(builder: GraphBuilder, x: Value): Value {
  const [batch, channels, height, width] = x.shape as [number, number, number, number];
  const data = Int32Array.from({ length: batch * channels }, (_, plane) => plane * height * width);
  return builder.constant(int32([batch, channels, 1, 1], data));
}

function int32(shape: readonly number[], data: Int32Array): Tensor {
  return { dtype: "int32", shape, data };
}
