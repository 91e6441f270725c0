// QuickGelu(x) {alpha}: x sigmoid(alpha x), ONNX Runtime's in one pass; with alpha = 1 it is Silu. For served models; never trained.

import { checkArity, checkFloat, numberOf } from "../check.ts";
import type { Operator, Value } from "../operator.ts";
import { sigmoidOf } from "./sigmoid.ts";

export const quickGelu: Operator = {
  type: "QuickGelu",
  domain: "com.microsoft",
  cheap: true,
  infer(inputs) {
    checkArity("QuickGelu", inputs, 1);
    checkFloat("QuickGelu", inputs);
    const { dtype, shape } = inputs[0] as Value;
    return [{ dtype, shape }];
  },
  plan(_inputs, _outputs, attributes) {
    const alpha = numberOf(attributes, "alpha", 1.702);
    return (data, results) => {
      const [x, y] = [data[0] as Float32Array, results[0] as Float32Array];
      for (let i = 0; i < y.length; i++) y[i] = (x[i] as number) * sigmoidOf(alpha * (x[i] as number));
    };
  },
  flops: (inputs) => 5 * (inputs[0]?.shape ?? []).reduce((product, size) => product * size, 1),
};
