// Activations of ONNX files that are no operators of ours, in operators that have derivatives.

import type { Value } from "../operators/operator.ts";
import type { Site, Translation, Translations } from "./site.ts";

/** max(0, x) + log(1 + exp(-|x|)): no exponential overflows. */
export function softplus(site: Site, x: Value): Value {
  const power = site.op("Exp", [site.op("Neg", [site.op("Abs", [x])])]);
  return site.add(site.op("Relu", [x]), site.op("Log", [site.add(power, 1)]));
}

/** exp(min(x, 0)) - 1, which is 0 for positive x. */
function expBelowZero(site: Site, x: Value): Value {
  return site.sub(site.op("Exp", [site.op("Clip", [x], { max: 0 })]), 1);
}

function tanhGelu(site: Site, x: Value): Value {
  const cube = site.mul(site.mul(x, x), x);
  const inner = site.mul(site.add(x, site.mul(cube, 0.044715)), 0.7978845608028654);
  return site.mul(site.mul(x, 0.5), site.add(site.op("Tanh", [inner]), 1));
}

const elu: Translation = (site) => {
  const x = site.input(0);
  const below = site.mul(expBelowZero(site, x), site.number("alpha", 1));
  return site.add(site.op("Relu", [x]), below);
};

const selu: Translation = (site) => {
  const x = site.input(0);
  const below = site.mul(expBelowZero(site, x), site.number("alpha", 1.6732632423543772));
  return site.mul(site.add(site.op("Relu", [x]), below), site.number("gamma", 1.0507009873554805));
};

const celu: Translation = (site) => {
  const x = site.input(0);
  const alpha = site.number("alpha", 1);
  const below = site.mul(expBelowZero(site, site.div(x, alpha)), alpha);
  return site.add(site.op("Relu", [x]), below);
};

/** A slope per channel, or one for all, where x is negative. */
const prelu: Translation = (site) => {
  const [x, slope] = [site.input(0), site.input(1)];
  const negative = site.mul(site.op("Neg", [site.op("Relu", [site.op("Neg", [x])])]), slope);
  return site.add(site.op("Relu", [x]), negative);
};

const shrink: Translation = (site) => {
  const x = site.input(0);
  const [bias, lambd] = [site.number("bias", 0), site.number("lambd", 0.5)];
  const above = site.where(site.greater(x, lambd), site.sub(x, bias), 0);
  return site.where(site.less(x, -lambd), site.add(x, bias), above);
};

export const activations: Translations = {
  Elu: elu,
  Selu: selu,
  Celu: celu,
  PRelu: prelu,
  Shrink: shrink,
  HardSwish: (site) => site.mul(site.input(0), site.op("HardSigmoid", [site.input(0)], { alpha: 1 / 6, beta: 0.5 })),
  Softplus: (site) => softplus(site, site.input(0)),
  Softsign: (site) => site.div(site.input(0), site.add(site.op("Abs", [site.input(0)]), 1)),
  Mish: (site) => site.mul(site.input(0), site.op("Tanh", [softplus(site, site.input(0))])),
  Swish: (site) => {
    const x = site.input(0);
    return site.mul(x, site.op("Sigmoid", [site.mul(x, site.number("alpha", 1))]));
  },
  ThresholdedRelu: (site) => {
    const x = site.input(0);
    return site.where(site.greater(x, site.number("alpha", 1)), x, 0);
  },
  Gelu: (site) =>
    site.text("approximate", "none") === "tanh" ? tanhGelu(site, site.input(0)) : site.op("Gelu", [site.input(0)]),
  "com.microsoft.Gelu": (site) => site.op("Gelu", [site.input(0)]),
  "com.microsoft.QuickGelu": (site) => {
    const x = site.input(0);
    return site.mul(x, site.op("Sigmoid", [site.mul(x, site.number("alpha", 1.702))]));
  },
  "com.microsoft.FastGelu": (site) =>
    tanhGelu(site, site.inputs[1] ? site.add(site.input(0), site.input(1)) : site.input(0)),
  "com.microsoft.BiasGelu": (site) => site.op("Gelu", [site.add(site.input(0), site.input(1))]),
};
