// ScatterElements(data, indices, updates) {axis, reduction: "add"}: adds each update to one element of a copy
// of `data`, in index order on one thread. Derivatives use it; embeddings do not (embedding.ts).

import type { TensorData } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, indexWithin, numberOf, refuse, resolveAxis, stridesOf, stringOf, walkIndex } from "../check.ts";
import type { Operator, Value } from "../operator.ts";

export const scatterElements: Operator = {
  type: "ScatterElements",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("ScatterElements", inputs, 3);
    const [data, indices, updates] = inputs as [Value, Value, Value];
    if (stringOf(attributes, "reduction", "none") !== "add") refuse("ScatterElements", inputs, 'needs reduction "add"');
    if (indices.shape.length !== data.shape.length || String(indices.shape) !== String(updates.shape))
      refuse("ScatterElements", inputs, "indices and updates must have one shape with the data's axes");
    return [{ dtype: data.dtype, shape: data.shape }];
  },
  plan(inputs, _outputs, attributes) {
    const [{ shape }, indices] = inputs as [ValueInfo, ValueInfo];
    const axis = resolveAxis("ScatterElements", inputs, numberOf(attributes, "axis", 0), shape.length);
    const strides = stridesOf(shape);
    const base = walkIndex(
      indices.shape,
      strides.map((stride, i) => (i === axis ? 0 : stride)),
    );
    const step = strides[axis] as number;
    const size = shape[axis] as number;
    return (data, results) => {
      const [x, picked, updates] = data as [Float32Array, TensorData, Float32Array];
      const y = results[0] as Float32Array;
      y.set(x);
      for (let i = 0; i < base.length; i++) {
        const at = (base[i] as number) + indexWithin("ScatterElements", Number(picked[i]), size) * step;
        y[at] = (y[at] as number) + (updates[i] as number);
      }
    };
  },
};
