// What operators that work element by element share: shape rules, kernels with broadcasting, and summing
// a gradient over the axes along which its value was broadcast.

import type { TensorData } from "../../../core/tensor.ts";
import { elementCount, type Shape, sameShape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { broadcastIndex, broadcastShape, checkArity, checkFloat, refuse } from "../check.ts";
import type { Builder, Derivation, Kernel, Operator, ResultType, Value } from "../operator.ts";

type Numbers = Float32Array;

/** An operator `y = f(x)` on floats. */
export function unary(
  type: string,
  apply: (x: number) => number,
  derivative?: (builder: Builder, x: Value, y: Value, dy: Value) => Value,
): Operator {
  return {
    type,
    cheap: true,
    infer(inputs) {
      checkArity(type, inputs, 1);
      checkFloat(type, inputs);
      const [x] = inputs as [Value];
      return [{ dtype: x.dtype, shape: x.shape }];
    },
    plan: () => mapKernel(apply),
    vjp:
      derivative &&
      (({ builder, inputs, outputs, gradients }: Derivation) => [
        derivative(builder, inputs[0] as Value, outputs[0] as Value, gradients[0] as Value),
      ]),
  };
}

export function mapKernel(apply: (x: number) => number): Kernel {
  return (inputs, outputs) => {
    const x = inputs[0] as Numbers;
    const y = outputs[0] as Numbers;
    for (let i = 0; i < y.length; i++) y[i] = apply(x[i] as number);
  };
}

/** Two inputs of one dtype that broadcast to one shape. */
export function inferBinary(type: string, inputs: readonly Value[]): ResultType {
  checkArity(type, inputs, 2);
  const [a, b] = inputs as [Value, Value];
  if (a.dtype !== b.dtype) refuse(type, inputs, "takes two inputs of one dtype");
  const shape = broadcastShape(a.shape, b.shape);
  if (shape === undefined) refuse(type, inputs, "these shapes do not broadcast to each other");
  return { dtype: a.dtype, shape };
}

export function binaryKernel(
  inputs: readonly ValueInfo[],
  output: ValueInfo,
  apply: (a: number, b: number) => number,
): Kernel {
  const [a, b] = inputs as [ValueInfo, ValueInfo];
  if (a.dtype === "int64") return bigKernel(inputs, output, apply);
  if (sameShape(a.shape, output.shape) && sameShape(b.shape, output.shape))
    return (data, results) => {
      const [x, y, z] = [data[0] as Numbers, data[1] as Numbers, results[0] as Numbers];
      for (let i = 0; i < z.length; i++) z[i] = apply(x[i] as number, y[i] as number);
    };
  if (sameShape(a.shape, output.shape) && elementCount(b.shape) === 1)
    return (data, results) => {
      const [x, z] = [data[0] as Numbers, results[0] as Numbers];
      const y = data[1]?.[0] as number;
      for (let i = 0; i < z.length; i++) z[i] = apply(x[i] as number, y);
    };
  const indexA = broadcastIndex(a.shape, output.shape);
  const indexB = broadcastIndex(b.shape, output.shape);
  return (data, results) => {
    const [x, y, z] = [data[0] as Numbers, data[1] as Numbers, results[0] as Numbers];
    for (let i = 0; i < z.length; i++) z[i] = apply(x[indexA[i] as number] as number, y[indexB[i] as number] as number);
  };
}

/** Shapes and indices of imported graphs: few elements, so clarity before speed. */
function bigKernel(inputs: readonly ValueInfo[], output: ValueInfo, apply: (a: number, b: number) => number): Kernel {
  const [indexA, indexB] = inputs.map((input) => broadcastIndex(input.shape, output.shape)) as [Int32Array, Int32Array];
  return (data, results) => {
    const [x, y] = data as [TensorData, TensorData];
    const z = results[0] as TensorData;
    for (let i = 0; i < z.length; i++) {
      const result = apply(Number(x[indexA[i] as number]), Number(y[indexB[i] as number]));
      if (z instanceof BigInt64Array) z[i] = BigInt(Math.trunc(result));
      else z[i] = result;
    }
  };
}

/** An operator `z = f(a, b)` with broadcasting; `derivatives` give the two gradients before summing. */
export function binary(
  type: string,
  apply: (a: number, b: number) => number,
  derivatives: readonly [
    (builder: Builder, a: Value, b: Value, dz: Value) => Value,
    (builder: Builder, a: Value, b: Value, dz: Value) => Value,
  ],
): Operator {
  return {
    type,
    cheap: true,
    infer: (inputs) => [inferBinary(type, inputs)],
    plan: (inputs, outputs) => binaryKernel(inputs, outputs[0] as ValueInfo, apply),
    vjp({ builder, inputs, gradients, wanted }) {
      const [a, b] = inputs as [Value, Value];
      const dz = gradients[0] as Value;
      return [a, b].map((input, i) =>
        wanted[i]
          ? reduceTo(builder, (derivatives[i] as (typeof derivatives)[0])(builder, a, b, dz), input.shape)
          : undefined,
      );
    },
  };
}

/** A comparison: bools out, no gradient. */
export function comparison(type: string, apply: (a: number, b: number) => boolean): Operator {
  return {
    type,
    cheap: true,
    infer: (inputs) => [{ dtype: "bool", shape: inferBinary(type, inputs).shape }],
    plan: (inputs, outputs) => binaryKernel(inputs, outputs[0] as ValueInfo, (a, b) => (apply(a, b) ? 1 : 0)),
    vjp: () => [undefined, undefined],
  };
}

/** Sums `gradient` over the axes along which a value of `shape` was broadcast. */
export function reduceTo(builder: Builder, gradient: Value, shape: Shape): Value {
  if (sameShape(gradient.shape, shape)) return gradient;
  const offset = gradient.shape.length - shape.length;
  const summed = gradient.shape.map(
    (size, axis) => axis < offset || ((shape[axis - offset] as number) === 1 && size !== 1),
  );
  const leading = summed.lastIndexOf(true) + 1;
  if (summed.slice(0, leading).every(Boolean)) {
    // Only leading axes: one sum over the rows of a matrix, the form that runs fastest.
    const columns = elementCount(gradient.shape.slice(leading));
    const rows = elementCount(gradient.shape) / columns;
    const matrix = builder.op("Reshape", [gradient], { shape: [rows, columns] });
    const sum = builder.op("ReduceSum", [matrix], { axes: [0], keepdims: 0 });
    return builder.op("Reshape", [sum], { shape });
  }
  const axes = summed.flatMap((flag, axis) => (flag ? [axis] : []));
  const sum = builder.op("ReduceSum", [gradient], { axes, keepdims: 1 });
  return builder.op("Reshape", [sum], { shape });
}
