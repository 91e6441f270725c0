// GatherElements(data, indices) {axis}: one element of `data` for each index, along an axis.

import type { TensorData } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { checkArity, indexWithin, numberOf, refuse, resolveAxis, stridesOf, walkIndex } from "../check.ts";
import type { Operator, Value } from "../operator.ts";

export const gatherElements: Operator = {
  type: "GatherElements",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("GatherElements", inputs, 2);
    const [data, indices] = inputs as [Value, Value];
    const axis = resolveAxis("GatherElements", inputs, numberOf(attributes, "axis", 0), data.shape.length);
    if (
      indices.shape.length !== data.shape.length ||
      indices.shape.some((size, i) => i !== axis && size > (data.shape[i] as number))
    )
      refuse("GatherElements", inputs, "indices must have the data's axes and fit in them");
    return [{ dtype: data.dtype, shape: indices.shape }];
  },
  plan(inputs, outputs, attributes) {
    const [{ shape }] = inputs as [ValueInfo];
    const axis = resolveAxis("GatherElements", inputs, numberOf(attributes, "axis", 0), shape.length);
    const strides = stridesOf(shape);
    const base = walkIndex(
      (outputs[0] as ValueInfo).shape,
      strides.map((stride, i) => (i === axis ? 0 : stride)),
    );
    const step = strides[axis] as number;
    const size = shape[axis] as number;
    return (data, results) => {
      const [x, picked] = data as [Float32Array, TensorData];
      const y = results[0] as Float32Array;
      for (let i = 0; i < y.length; i++)
        y[i] = x[(base[i] as number) + indexWithin("GatherElements", Number(picked[i]), size) * step] as number;
    };
  },
  vjp({ builder, inputs, gradients, attributes, wanted }) {
    if (!wanted[0]) return [undefined, undefined];
    const [data, indices] = inputs as [Value, Value];
    const zeros = builder.op("Expand", [builder.scalar(0)], { shape: data.shape });
    const axis = numberOf(attributes, "axis", 0);
    return [
      builder.op("ScatterElements", [zeros, indices, gradients[0] as Value], { axis, reduction: "add" }),
      undefined,
    ];
  },
  flops: () => 0,
};
