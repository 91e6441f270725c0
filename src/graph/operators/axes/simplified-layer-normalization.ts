// SimplifiedLayerNormalization(x, scale) {axis = -1, epsilon}: ONNX Runtime's RmsNorm, in one pass. For served models; never
// trained.

import type { Operator } from "../operator.ts";
import { rmsNorm } from "./rms-norm.ts";

export const simplifiedLayerNormalization: Operator = {
  type: "SimplifiedLayerNormalization",
  cheap: true,
  infer: rmsNorm.infer,
  plan: rmsNorm.plan,
  flops: rmsNorm.flops!,
};
