// GatherBlockQuantized(table uint8 [rows, width bits / 8], ids, scales [rows, width / block]) {bits, block_size, gather_axis,
// quantize_axis}: rows of a table of whole numbers of 4 or 8 bits with a scale for each block, as floats. ONNX Runtime's, for
// the embeddings of served models; never trained.

import { checkArity, numberOf, refuse } from "../check.ts";
import { unpacked } from "../matrices/matmul-n-bits.ts";
import type { Operator, Value } from "../operator.ts";

export const gatherBlockQuantized: Operator = {
  type: "GatherBlockQuantized",
  domain: "com.microsoft",
  cheap: true,
  infer(inputs, attributes) {
    checkArity("GatherBlockQuantized", inputs, 3);
    const [table, ids, scales] = inputs as [Value, Value, Value];
    const [rows = 0, bytes = 0] = table.shape;
    const width = (bytes * 8) / numberOf(attributes, "bits", 4);
    const blocks = width / numberOf(attributes, "block_size", 0);
    if (table.dtype !== "uint8" || !Number.isInteger(blocks) || String(scales.shape) !== String([rows, blocks]))
      refuse("GatherBlockQuantized", inputs, `the table must be uint8 with scales [${[rows, blocks]}]`);
    return [{ dtype: "float32", shape: [...ids.shape, width] }];
  },
  plan(inputs, _outputs, attributes) {
    const [bits, block] = [numberOf(attributes, "bits", 4), numberOf(attributes, "block_size", 0)];
    const width = ((inputs[0]?.shape[1] ?? 0) * 8) / bits;
    return (data, results) => {
      const [table, ids, scales] = data as [Uint8Array, Int32Array, Float32Array];
      const y = results[0] as Float32Array;
      for (let i = 0; i < ids.length; i++)
        for (let k = 0; k < width; k++) {
          const element = (ids[i] as number) * width + k;
          y[i * width + k] = unpacked(table, element, bits) * (scales[Math.floor(element / block)] as number);
        }
    };
  },
  flops: () => 0,
};
