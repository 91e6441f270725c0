// Normalisations of ONNX files that are no operators of ours: per instance, per group of channels, by length, local.

import { elementCount } from "../../core/tensor.ts";
import type { Value } from "../operators/operator.ts";
import type { Site, Translation, Translations } from "./site.ts";

/** (x - mean) / sqrt(variance + epsilon) over axes. */
function normalised(site: Site, x: Value, axes: readonly number[], epsilon: number): Value {
  const centred = site.sub(x, site.reduce("Mean", x, axes));
  const variance = site.reduce("Mean", site.mul(centred, centred), axes);
  return site.div(centred, site.op("Sqrt", [site.add(variance, epsilon)]));
}

/** One number per channel, shaped so that it broadcasts over [batch, channels, ..]. */
function perChannel(site: Site, value: Value, x: Value): Value {
  return site.reshape(value, [value.shape[0] as number, ...x.shape.slice(2).map(() => 1)]);
}

function affine(site: Site, x: Value): Value {
  const scaled = site.mul(x, perChannel(site, site.input(1), x));
  return site.add(scaled, perChannel(site, site.input(2), x));
}

const instanceNormalization: Translation = (site) => {
  const x = site.input(0);
  const axes = x.shape.map((_, axis) => axis).slice(2);
  return affine(site, normalised(site, x, axes, site.number("epsilon", 1e-5)));
};

/** Before opset 21, scale and bias were per group; since then they are per channel. */
const groupNormalization: Translation = (site) => {
  const x = site.input(0);
  site.only("stash_type", 1);
  const groups = site.number("num_groups", 1);
  const [batch, channels] = x.shape as [number, number];
  if (channels % groups !== 0) site.refuse(`${channels} channels are not divisible into ${groups} groups`);
  const apart = site.reshape(x, [batch, groups, elementCount(x.shape) / (batch * groups)]);
  const normal = normalised(site, apart, [2], site.number("epsilon", 1e-5));
  if (site.opset >= 21 || site.input(1).shape[0] === channels) return affine(site, site.reshape(normal, x.shape));
  return site.reshape(affine(site, normal), x.shape);
};

const meanVariance: Translation = (site) => {
  const x = site.input(0);
  const axes = (site.numbers("axes") ?? [0, 2, 3]).map((axis) => site.axis(axis, x.shape.length));
  return normalised(site, x, axes, 1e-9);
};

const lpNormalization: Translation = (site) => {
  const x = site.input(0);
  const axis = site.axis(site.number("axis", -1), x.shape.length);
  const p = site.number("p", 2);
  if (p !== 1 && p !== 2) site.refuse(`p = ${p} is not supported, only 1 and 2`);
  const size = site.reduce("Sum", p === 1 ? site.op("Abs", [x]) : site.mul(x, x), [axis]);
  const length = p === 1 ? size : site.op("Sqrt", [size]);
  // A vector of zeros stays one.
  return site.div(x, site.where(site.greater(length, 0), length, 1));
};

/** x * scale / root of the mean square over the axes from `axis` on. */
const rmsNormalization: Translation = (site) => {
  const x = site.input(0);
  site.only("stash_type", 1);
  const first = site.axis(site.number("axis", -1), x.shape.length);
  const axes = x.shape.map((_, axis) => axis).slice(first);
  const mean = site.reduce("Mean", site.mul(x, x), axes);
  const length = site.op("Sqrt", [site.add(mean, site.number("epsilon", 1e-5))]);
  return site.mul(site.div(x, length), site.input(1));
};

/** Neighbouring channels' squares, added up by a product with a band of ones. */
const localResponse: Translation = (site) => {
  const x = site.input(0);
  const size = site.number("size", 1);
  const [alpha, beta, bias] = [site.number("alpha", 1e-4), site.number("beta", 0.75), site.number("bias", 1)];
  const channels = x.shape[1] as number;
  site.bounded(channels * channels);
  const band = new Float32Array(channels * channels);
  for (let i = 0; i < band.length; i++) {
    const distance = (i % channels) - Math.floor(i / channels);
    band[i] = distance >= -Math.floor((size - 1) / 2) && distance <= Math.ceil((size - 1) / 2) ? 1 : 0;
  }
  const sums = site.along(site.mul(x, x), 1, channels, band);
  const base = site.add(site.mul(sums, alpha / size), bias);
  return site.mul(x, site.op("Exp", [site.mul(site.op("Log", [base]), -beta)]));
};

/** Adds the skip first; ONNX Runtime's fused form. */
const skipLayer: Translation = (site) => {
  const sum = site.add(site.input(0), site.input(1));
  const x = site.inputs[4] ? site.add(sum, site.input(4)) : sum;
  const affineOf = [site.input(2), ...(site.inputs[3] ? [site.input(3)] : [])];
  const y = site.op("LayerNormalization", [x, ...affineOf], { axis: -1, epsilon: site.number("epsilon", 1e-12) });
  return [y, undefined, undefined, x];
};

export const normalisations: Translations = {
  InstanceNormalization: instanceNormalization,
  GroupNormalization: groupNormalization,
  MeanVarianceNormalization: meanVariance,
  LpNormalization: lpNormalization,
  RMSNormalization: rmsNormalization,
  SimplifiedLayerNormalization: rmsNormalization,
  LRN: localResponse,
  "com.microsoft.SkipLayerNormalization": skipLayer,
};
