// Kernels that only move data.

import type { TensorData } from "../../../core/tensor.ts";
import type { Kernel } from "../operator.ts";

/** Output 0 is input 0, element by element. Engines may alias instead of calling it. */
export const sameData: Kernel = (inputs, outputs) => {
  (outputs[0] as Float32Array).set(inputs[0] as Float32Array);
};

/** Output element i is input element index[i]. */
export function gatherKernel(index: Int32Array): Kernel {
  return (inputs, outputs) => {
    const x = inputs[0] as TensorData;
    const y = outputs[0] as TensorData;
    for (let i = 0; i < index.length; i++) y[i] = x[index[i] as number] as never;
  };
}
