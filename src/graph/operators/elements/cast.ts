// Cast {to: ONNX type number}: changes the dtype. Floats keep their value; to int truncates toward zero.

import type { DType, TensorData } from "../../../core/tensor.ts";
import { checkArity, isFloat, numberOf, refuse } from "../check.ts";
import type { Operator, Value } from "../operator.ts";

/** ONNX's numbers of the dtypes that our graphs use. */
export const onnxTypes: Readonly<Record<number, DType>> = {
  1: "float32",
  2: "uint8",
  6: "int32",
  7: "int64",
  9: "bool",
  10: "float16",
  11: "float64",
  16: "bfloat16",
};

export function onnxTypeOf(dtype: DType): number {
  return Number(Object.entries(onnxTypes).find(([, name]) => name === dtype)?.[0]);
}

export const cast: Operator = {
  type: "Cast",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("Cast", inputs, 1);
    const dtype = onnxTypes[numberOf(attributes, "to", 0)];
    if (dtype === undefined || dtype === "float16" || dtype === "bfloat16")
      refuse("Cast", inputs, `cannot cast to ONNX type ${numberOf(attributes, "to", 0)}`);
    return [{ dtype, shape: (inputs[0] as Value).shape }];
  },
  plan(_inputs, outputs) {
    const bool = outputs[0]?.dtype === "bool";
    const whole = bool || !isFloat(outputs[0]?.dtype as DType);
    return (data, results) => {
      const x = data[0] as TensorData;
      const y = results[0] as TensorData;
      for (let i = 0; i < y.length; i++) {
        const value = bool ? (Number(x[i]) === 0 ? 0 : 1) : whole ? Math.trunc(Number(x[i])) : Number(x[i]);
        y[i] = (y instanceof BigInt64Array ? BigInt(value) : value) as never;
      }
    };
  },
  vjp({ builder, inputs, gradients }) {
    const [x] = inputs as [Value];
    return [isFloat(x.dtype) ? builder.op("Cast", [gradients[0] as Value], { to: onnxTypeOf(x.dtype) }) : undefined];
  },
  flops: () => 0,
};
