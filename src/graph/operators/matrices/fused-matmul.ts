// FusedMatMul {transA, transB, alpha}: ONNX Runtime's MatMul that scales and transposes without extra passes.

import type { Shape } from "../../../core/tensor.ts";
import type { ValueInfo } from "../../model.ts";
import { numberOf } from "../check.ts";
import { reduceTo } from "../elements/elementwise.ts";
import type { Attributes, Operator, Value } from "../operator.ts";
import { inferProduct, type Product, productFlops, productKernel, productOf } from "./matrix.ts";

function formOf(attributes: Attributes) {
  return {
    transA: numberOf(attributes, "transA", 0) === 1,
    transB: numberOf(attributes, "transB", 0) === 1,
    alpha: numberOf(attributes, "alpha", 1),
  };
}

export const fusedMatMul: Operator = {
  type: "FusedMatMul",
  domain: "com.microsoft",
  cheap: false,
  infer: (inputs, attributes) => [
    { dtype: (inputs[0] as Value)?.dtype, shape: inferProduct("FusedMatMul", inputs, formOf(attributes)) },
  ],
  plan(inputs, _outputs, attributes) {
    const [a, b] = inputs.map((input) => input.shape) as [Shape, Shape];
    return productKernel(productOf(a, b, formOf(attributes))?.product as Product);
  },
  vjp({ builder, inputs, gradients, attributes, wanted }) {
    const [a, b] = inputs as [Value, Value];
    const dy = gradients[0] as Value;
    const { transA, transB, alpha } = formOf(attributes);
    const product = (x: Value, transX: boolean, y: Value, transY: boolean) =>
      builder.op("FusedMatMul", [x, y], { transA: transX ? 1 : 0, transB: transY ? 1 : 0, alpha });
    const da = () => (transA ? product(b, transB, dy, true) : product(dy, false, b, !transB));
    const db = () => (transB ? product(dy, true, a, transA) : product(a, !transA, dy, false));
    return [
      wanted[0] ? reduceTo(builder, da(), a.shape) : undefined,
      wanted[1] ? reduceTo(builder, db(), b.shape) : undefined,
    ];
  },
  flops(inputs, outputs, attributes) {
    const inner = (inputs[0] as ValueInfo).shape.at(formOf(attributes).transA ? -2 : -1) as number;
    return productFlops((outputs[0] as ValueInfo).shape, inner);
  },
};
