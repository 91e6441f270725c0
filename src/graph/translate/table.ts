// All operators of ONNX files that are understood, by name (with the domain in front where it is not ONNX' own), and how
// each is put into ours. What is missing is refused by name, together with what is here.

import type { Attribute } from "../model.ts";
import type { Value } from "../operators/operator.ts";
import { activations } from "./activations.ts";
import { arithmetic } from "./arithmetic.ts";
import { constants } from "./constants.ts";
import { einsums } from "./einsum.ts";
import { images } from "./images.ts";
import { linearModels } from "./linear-models.ts";
import { normalisations } from "./normalisation.ts";
import { recurrents } from "./recurrent.ts";
import { reductions } from "./reductions.ts";
import { resizes } from "./resize.ts";
import { shapes } from "./shapes.ts";
import type { Site, Translation, Translations } from "./site.ts";

/** The same operator with the same attributes. */
function same(type: string, ...attributes: readonly string[]): Translation {
  return (site) => {
    const given: Record<string, Attribute> = {};
    for (const name of attributes) {
      const value = site.attribute(name);
      if (value !== undefined) given[name] = value;
    }
    const inputs = [...site.inputs];
    while (inputs.length > 0 && inputs.at(-1) === undefined) inputs.pop();
    return site.builder.ops(
      type,
      inputs.map((_, i) => site.input(i)),
      given,
      Math.max(1, site.node.outputs.length),
    );
  };
}

/** Min and max are inputs since opset 11; only their being constant is supported. */
const clip: Translation = (site) => {
  const x = site.input(0);
  const lowest = Number.NEGATIVE_INFINITY;
  const min = site.known(1, "minimum")?.[0] ?? site.number("min", lowest);
  const max = site.known(2, "maximum")?.[0] ?? site.number("max", -lowest);
  const bounds = { ...(Number.isFinite(min) && { min }), ...(Number.isFinite(max) && { max }) };
  if (site.isFloat(x)) return site.op("Clip", [x], bounds);
  const above = Number.isFinite(min) ? site.where(site.less(x, min), min, x) : x;
  return Number.isFinite(max) ? site.where(site.greater(above, max), max, above) : above;
};

/** Half precisions are computed in single precision. */
const cast: Translation = (site) => {
  site.ignore("saturate", "round_mode");
  const to = site.number("to", 1);
  const wider = to === 10 || to === 16 || to === 11 ? 1 : to === 12 || to === 13 ? 7 : to;
  return site.op("Cast", [site.input(0)], { to: wider });
};

/** Before opset 13, softmax joined all axes from `axis` on; it means the same only for the last one. */
function softmax(type: "Softmax" | "LogSoftmax"): Translation {
  return (site) => {
    const x = site.input(0);
    const axis = site.axis(site.number("axis", site.opset >= 13 ? -1 : 1), x.shape.length);
    if (site.opset >= 13 || axis === x.shape.length - 1) return site.op(type, [x], { axis });
    const joined = site.op("Flatten", [x], { axis });
    return site.reshape(site.op(type, [joined], { axis: -1 }), x.shape);
  };
}

const batchNormalization: Translation = (site) => {
  site.ignore("momentum");
  site.only("spatial", 1);
  if (site.number("training_mode", 0) === 1)
    site.refuse("statistics over a batch are not supported: export for inference");
  const epsilon = site.number("epsilon", 1e-5);
  return site.op(
    "BatchNormalization",
    [0, 1, 2, 3, 4].map((i) => site.input(i)),
    { epsilon },
  );
};

/** Whole numbers are added, compared and so on as they are; a bool is compared as a number. */
const equal: Translation = (site) => {
  const [a, b] = [site.input(0), site.input(1)];
  const as = (x: Value) => (x.dtype === "bool" ? site.cast(x, "float32") : x);
  return site.op("Equal", [as(a), as(b)]);
};

const direct: Translations = {
  ...Object.fromEntries(
    ["Add", "Sub", "Mul", "Div", "Neg", "Abs", "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Relu"]
      .concat(["MatMul", "Greater", "Less", "Where"])
      .map((type) => [type, same(type)]),
  ),
  Equal: equal,
  BatchNormalization: batchNormalization,
  Cast: cast,
  Clip: clip,
  Gather: same("Gather", "axis"),
  GatherElements: same("GatherElements", "axis"),
  Gemm: same("Gemm", "transA", "transB", "alpha", "beta"),
  HardSigmoid: same("HardSigmoid", "alpha", "beta"),
  LayerNormalization: (site) => {
    site.only("stash_type", 1);
    return same("LayerNormalization", "axis", "epsilon")(site);
  },
  LeakyRelu: same("LeakyRelu", "alpha"),
  LogSoftmax: softmax("LogSoftmax"),
  ScatterElements: same("ScatterElements", "axis", "reduction"),
  Softmax: softmax("Softmax"),
  Transpose: same("Transpose", "perm"),
  "com.microsoft.FusedMatMul": same("FusedMatMul", "transA", "transB", "alpha"),
};

export const translations: Translations = {
  ...direct,
  ...activations,
  ...arithmetic,
  ...constants,
  ...einsums,
  ...images,
  ...linearModels,
  ...normalisations,
  ...recurrents,
  ...reductions,
  ...resizes,
  ...shapes,
};

export function translationOf(type: string, domain: string): Translation | undefined {
  const name = domain === "" || domain === "ai.onnx" ? type : `${domain}.${type}`;
  return Object.hasOwn(translations, name) ? translations[name] : undefined;
}

export function translated(site: Site): readonly (Value | undefined)[] {
  const translation = translationOf(site.node.type, site.node.domain);
  if (translation === undefined) return site.refuse("is not supported");
  const result = translation(site);
  const [unread] = site.unread();
  if (unread !== undefined) site.refuse(`its attribute "${unread}" is not supported`);
  return Array.isArray(result) ? (result as readonly (Value | undefined)[]) : [result as Value];
}
