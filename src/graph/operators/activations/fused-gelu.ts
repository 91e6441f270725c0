// FusedGelu: ONNX Runtime's own exact Gelu, in one pass; the forward of Gelu is lowered to it.

import { unary } from "../elements/elementwise.ts";
import type { Operator } from "../operator.ts";
import { geluOf } from "./gelu.ts";

export const fusedGelu: Operator = { ...unary("FusedGelu", geluOf), onnxType: "Gelu", domain: "com.microsoft" };
