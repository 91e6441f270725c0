// MatMulNBits(x [.., K], weights uint8 [N, K / block, block bits / 8], scales [N, K / block]) {K, N, bits, block_size,
// accuracy_level}: x times a matrix whose elements are whole numbers of 4 or 8 bits, a scale for each block of a column.
// ONNX Runtime's product for served models; never trained. At accuracy level 4 the runtime rounds x to 8 bits as well.

import type { ValueInfo } from "../../model.ts";
import { checkArity, numberOf, refuse } from "../check.ts";
import type { Attributes, Operator, Value } from "../operator.ts";
import { productFlops } from "./matrix.ts";

function sizesOf(attributes: Attributes) {
  const of = (name: string) => numberOf(attributes, name, 0);
  return { inner: of("K"), columns: of("N"), bits: of("bits"), block: of("block_size") };
}

/** Element `index` of packed whole numbers, as a signed one. */
export function unpacked(data: Uint8Array, index: number, bits: number): number {
  if (bits === 8) return (data[index] as number) - 128;
  const byte = data[index >> 1] as number;
  return ((index & 1) === 0 ? byte & 15 : byte >> 4) - 8;
}

export const matMulNBits: Operator = {
  type: "MatMulNBits",
  domain: "com.microsoft",
  cheap: false,
  infer(inputs, attributes) {
    checkArity("MatMulNBits", inputs, 3);
    const [x, weights, scales] = inputs as [Value, Value, Value];
    const { inner, columns, bits, block } = sizesOf(attributes);
    const blocks = inner / block;
    if (x.shape.at(-1) !== inner || (bits !== 4 && bits !== 8) || !Number.isInteger(blocks))
      refuse("MatMulNBits", inputs, `needs ${inner} columns, 4 or 8 bits and whole blocks of ${block}`);
    if (String(weights.shape) !== String([columns, blocks, (block * bits) / 8]) || weights.dtype !== "uint8")
      refuse("MatMulNBits", inputs, `the weights must be uint8 [${[columns, blocks, (block * bits) / 8]}]`);
    if (String(scales.shape) !== String([columns, blocks]))
      refuse("MatMulNBits", inputs, `the scales must have the shape [${[columns, blocks]}]`);
    return [{ dtype: x.dtype, shape: [...x.shape.slice(0, -1), columns] }];
  },
  plan(_inputs, _outputs, attributes) {
    const { inner, columns, bits, block } = sizesOf(attributes);
    const blocks = inner / block;
    return (data, results) => {
      const [x, weights, scales] = data as [Float32Array, Uint8Array, Float32Array];
      const y = results[0] as Float32Array;
      for (let row = 0; row < y.length / columns; row++)
        for (let column = 0; column < columns; column++) {
          let sum = 0;
          for (let k = 0; k < inner; k++) {
            const scale = scales[column * blocks + Math.floor(k / block)] as number;
            sum += (x[row * inner + k] as number) * unpacked(weights, column * inner + k, bits) * scale;
          }
          y[row * columns + column] = sum;
        }
    };
  },
  flops: (inputs, outputs, attributes) =>
    productFlops((outputs[0] as ValueInfo).shape, numberOf(attributes, "K", inputs[0]?.shape.at(-1) ?? 0)),
};
