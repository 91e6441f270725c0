// Gather(data, indices) {axis = 0}: picks slices of `data` along an axis. Indices must be in range; the
// runtime checks token ids before they reach a graph.

import { elementCount, float32, type TensorData } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, indexWithin, numberOf, refuse, resolveAxis, splitAt } from "../check.ts";
import type { Derivation, Operator, Value } from "../operator.ts";

export const gather: Operator = {
  type: "Gather",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Gather", inputs, 2);
    const [data, indices] = inputs as [Value, Value];
    if (indices.dtype !== "int32" && indices.dtype !== "int64") refuse("Gather", inputs, "takes whole-number indices");
    const axis = resolveAxis("Gather", inputs, numberOf(attributes, "axis", 0), data.shape.length);
    return [
      { dtype: data.dtype, shape: [...data.shape.slice(0, axis), ...indices.shape, ...data.shape.slice(axis + 1)] },
    ];
  },
  plan(inputs, _outputs, attributes) {
    const [{ shape }, indices] = inputs as [ValueInfo, ValueInfo];
    const axis = resolveAxis("Gather", inputs, numberOf(attributes, "axis", 0), shape.length);
    const { outer, size, inner } = splitAt(shape, axis);
    const count = elementCount(indices.shape);
    return (data, results) => {
      const [x, picked] = data as [TensorData, TensorData];
      const y = results[0] as TensorData;
      for (let row = 0, at = 0; row < outer; row++)
        for (let i = 0; i < count; i++) {
          const from = (row * size + indexWithin("Gather", Number(picked[i]), size)) * inner;
          for (let j = 0; j < inner; j++) y[at++] = x[from + j] as never;
        }
    };
  },
  vjp: gatherGradient,
  flops: () => 0,
};

/** Of a table that is looked up by ids: rows for the runtime to add. By constants: a product with one-hot rows. */
export function gatherGradient({ builder, inputs, gradients, attributes, wanted, sparse }: Derivation) {
  if (!wanted[0]) return [undefined, undefined];
  const [data, indices] = inputs as [Value, Value];
  const dy = gradients[0] as Value;
  const axis = resolveAxis("Gather", inputs, numberOf(attributes, "axis", 0), data.shape.length);
  const { outer, size, inner } = splitAt(data.shape, axis);
  const count = elementCount(indices.shape);
  if (indices.constant === undefined) {
    if (axis !== 0) refuse("Gather", inputs, "has a derivative along axis 0 only, unless the indices are constant");
    sparse(data, indices, builder.op("Reshape", [dy], { shape: [count, inner] }));
    return [undefined, undefined];
  }
  const oneHot = new Float32Array(size * count);
  for (let i = 0; i < count; i++) {
    const given = Number(indices.constant.data[i]);
    oneHot[(given < 0 ? given + size : given) * count + i] = 1;
  }
  const rows = builder.op("Reshape", [dy], { shape: [outer, count, inner] });
  const spread = builder.op("MatMul", [builder.constant(float32([size, count], oneHot)), rows]);
  return [builder.op("Reshape", [spread], { shape: data.shape }), undefined];
}
