// Convolutions and pools of ONNX files: one spatial axis becomes two, bias and padding modes become what our operators
// have, and resizing is a product with one matrix per axis.

import { elementCount } from "../../core/tensor.ts";
import type { Value } from "../operators/operator.ts";
import type { Site, Translation, Translations } from "./site.ts";

interface Spatial {
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  readonly pads: readonly number[];
}

/** {strides, dilations, pads, auto_pad} for the sizes of the spatial axes. */
function spatialOf(
  site: Site,
  sizes: readonly number[],
  kernel: readonly number[],
  mode = site.text("auto_pad", "NOTSET"),
): Spatial {
  const axes = sizes.length;
  const ones = sizes.map(() => 1);
  const strides = site.numbers("strides") ?? ones;
  const dilations = site.numbers("dilations") ?? ones;
  const given = site.numbers("pads") ?? [];
  const none = new Array<number>(2 * axes).fill(0);
  const lists = [strides, dilations, kernel].every((list) => list.length === axes && list.every((each) => each >= 1));
  if (axes < 1 || axes > 2 || !lists)
    site.refuse(
      `works on ${axes} spatial axes with strides [${strides}] and dilations [${dilations}]: one or two axes are supported`,
    );
  if (mode === "NOTSET") return { strides, dilations, pads: given.length > 0 ? given : none };
  if (mode === "VALID") return { strides, dilations, pads: none };
  if (mode !== "SAME_UPPER" && mode !== "SAME_LOWER") return site.refuse(`auto_pad "${mode}" is unknown`);
  const total = sizes.map((size, axis) => {
    const [stride, reach] = [strides[axis] as number, reachOf(kernel, dilations, axis)];
    return Math.max(0, (Math.ceil(size / stride) - 1) * stride + reach - size);
  });
  const [small, large] = [total.map((pad) => Math.floor(pad / 2)), total.map((pad) => Math.ceil(pad / 2))];
  return { strides, dilations, pads: mode === "SAME_UPPER" ? [...small, ...large] : [...large, ...small] };
}

function reachOf(kernel: readonly number[], dilations: readonly number[], axis: number): number {
  return ((kernel[axis] as number) - 1) * (dilations[axis] as number) + 1;
}

/** One spatial axis becomes the second of two. */
function twoAxes(site: Site, x: Value): Value {
  return x.shape.length === 3 ? site.reshape(x, [...x.shape.slice(0, 2), 1, x.shape[2] as number]) : x;
}

function widened({ strides, dilations, pads }: Spatial): Spatial {
  if (strides.length === 2) return { strides, dilations, pads };
  return { strides: [1, ...strides], dilations: [1, ...dilations], pads: [0, pads[0] as number, 0, pads[1] as number] };
}

function narrowed(site: Site, y: Value, rank: number): Value {
  return rank === 3 ? site.reshape(y, [...y.shape.slice(0, 2), y.shape[3] as number]) : y;
}

const conv: Translation = (site) => {
  const [x, weight] = [site.input(0), site.input(1)];
  site.ignore("kernel_shape");
  const spatial = widened(spatialOf(site, x.shape.slice(2), weight.shape.slice(2)));
  const bias = site.inputs[2] ? [site.input(2)] : [];
  const y = site.op("Conv", [twoAxes(site, x), twoAxes(site, weight), ...bias], {
    ...spatial,
    group: site.number("group", 1),
  });
  return narrowed(site, y, x.shape.length);
};

/** output_shape and SAME modes say the size and leave the pads to be found. */
const convTranspose: Translation = (site) => {
  const [x, weight] = [site.input(0), site.input(1)];
  site.ignore("kernel_shape");
  const kernel = weight.shape.slice(2);
  const sizes = x.shape.slice(2);
  const mode = site.text("auto_pad", "NOTSET");
  const strides = site.numbers("strides") ?? sizes.map(() => 1);
  const rest = site.numbers("output_padding") ?? sizes.map(() => 0);
  const wanted =
    site.numbers("output_shape")?.slice(-sizes.length) ??
    (mode.startsWith("SAME") ? sizes.map((size, axis) => size * (strides[axis] as number)) : undefined);
  // The pads of SAME modes are found from the wanted size, below.
  const spatial = spatialOf(site, sizes, kernel, wanted === undefined ? mode : "VALID");
  const pads = [...spatial.pads];
  if (wanted !== undefined)
    for (const axis of sizes.keys()) {
      const full = (strides[axis] as number) * ((sizes[axis] as number) - 1) + (rest[axis] as number);
      const total = full + reachOf(kernel, spatial.dilations, axis) - (wanted[axis] as number);
      if (total < 0) site.refuse(`cannot reach the size ${wanted[axis]}`);
      const [small, large] = [Math.floor(total / 2), Math.ceil(total / 2)];
      [pads[axis], pads[axis + sizes.length]] = mode === "SAME_UPPER" ? [small, large] : [large, small];
    }
  const y = site.op("ConvTranspose", [twoAxes(site, x), twoAxes(site, weight)], {
    ...widened({ ...spatial, pads }),
    group: site.number("group", 1),
    output_padding: sizes.length === 2 ? rest : [0, ...rest],
  });
  const bias = site.inputs[2];
  const channels = y.shape[1] as number;
  const shifted = bias ? site.add(y, site.reshape(bias, [1, channels, 1, 1])) : y;
  return narrowed(site, shifted, x.shape.length);
};

/** A pool as its operator takes it: two axes, and pads at the end where sizes are rounded up. */
function pooled(site: Site): {
  x: Value;
  kernel: readonly number[];
  spatial: Spatial;
  roundedUp: boolean;
  rank: number;
} {
  const x = site.input(0);
  const kernel = site.numbers("kernel_shape") ?? site.refuse("lacks its kernel_shape");
  const sizes = x.shape.slice(2);
  const given = spatialOf(site, sizes, kernel);
  const pads = [...given.pads];
  let roundedUp = false;
  if (site.number("ceil_mode", 0) === 1)
    for (const [axis, size] of sizes.entries()) {
      const stride = given.strides[axis] as number;
      const [before, after] = [pads[axis] as number, pads[axis + sizes.length] as number];
      const room = size + before + after - reachOf(kernel, given.dilations, axis);
      const more = Math.ceil(room / stride) * stride - room;
      // A window that would start behind the image does not count.
      if (more === 0 || Math.ceil(room / stride) * stride >= size + before) continue;
      pads[axis + sizes.length] = after + more;
      roundedUp = true;
    }
  const spatial = widened({ ...given, pads });
  return {
    x: twoAxes(site, x),
    kernel: kernel.length === 1 ? [1, ...kernel] : kernel,
    spatial,
    roundedUp,
    rank: x.shape.length,
  };
}

const maxPool: Translation = (site) => {
  const { x, kernel, spatial, rank } = pooled(site);
  site.only("storage_order", 0);
  if (site.node.outputs.length > 1 && site.node.outputs[1] !== "") site.refuse("its indices are not supported");
  return narrowed(site, site.op("MaxPool", [x], { kernel_shape: kernel, ...spatial }), rank);
};

const averagePool: Translation = (site) => {
  const { x, kernel, spatial, roundedUp, rank } = pooled(site);
  const includes = site.number("count_include_pad", 0);
  if (roundedUp && includes === 1) site.refuse("ceil_mode with count_include_pad is not supported");
  const attributes = { kernel_shape: kernel, ...spatial, count_include_pad: includes };
  return narrowed(site, site.op("AveragePool", [x], attributes), rank);
};

/** The root of the sum of squares, by an average of squares. */
const lpPool: Translation = (site) => {
  const { x, kernel, spatial, rank } = pooled(site);
  const p = site.number("p", 2);
  if (p !== 1 && p !== 2) site.refuse(`p = ${p} is not supported, only 1 and 2`);
  const powers = p === 1 ? site.op("Abs", [x]) : site.mul(x, x);
  const mean = site.op("AveragePool", [powers], { kernel_shape: kernel, ...spatial, count_include_pad: 1 });
  const sum = site.mul(mean, elementCount(kernel));
  return narrowed(site, p === 1 ? sum : site.op("Sqrt", [sum]), rank);
};

export const images: Translations = {
  Conv: conv,
  ConvTranspose: convTranspose,
  MaxPool: maxPool,
  AveragePool: averagePool,
  LpPool: lpPool,
};
