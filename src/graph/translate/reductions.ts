// Reductions of ONNX files: those that are none of ours, and places of extremes (ArgMax, TopK, ..). Axes are an attribute or, in newer
// files, an input.

import { elementCount } from "../../core/tensor.ts";
import type { Value } from "../operators/operator.ts";
import type { Site, Translation, Translations } from "./site.ts";

interface Reduction {
  readonly x: Value;
  readonly axes: readonly number[];
  readonly keepdims: number;
}

/** Undefined where no axes are given and the file says that this means none. */
function reductionOf(site: Site): Reduction | undefined {
  const x = site.input(0);
  const given = site.numbers("axes") ?? site.known(1, "axes") ?? [];
  const keepdims = site.number("keepdims", 1);
  const none = site.number("noop_with_empty_axes", 0) === 1;
  if (given.length === 0 && none) return undefined;
  const axes = given.length === 0 ? [...x.shape.keys()] : given.map((axis) => site.axis(axis, x.shape.length));
  return { x, axes: [...axes].sort((a, b) => a - b), keepdims };
}

function reduction(compute: (site: Site, given: Reduction) => Value): Translation {
  return (site) => {
    const given = reductionOf(site);
    if (given === undefined) return site.input(0);
    if (given.axes.length === 0) return given.x;
    return compute(site, given);
  };
}

const plain = (type: "Sum" | "Mean" | "Max") =>
  reduction((site, { x, axes, keepdims }) => site.reduce(type, x, axes, keepdims));

/** log(sum(exp(x))), with the largest taken out in front so that nothing overflows. */
const logSumExp = reduction((site, { x, axes, keepdims }) => {
  const largest = site.reduce("Max", x, axes);
  const sum = site.reduce("Sum", site.op("Exp", [site.sub(x, largest)]), axes);
  const result = site.add(site.op("Log", [sum]), largest);
  if (keepdims === 1) return result;
  return site.reshape(
    result,
    x.shape.filter((_, axis) => !axes.includes(axis)),
  );
});

/** More factors would be a graph that only an attacker writes. */
const factorsMax = 4096;

/** Halves are multiplied with each other until one factor is left. */
const product = reduction((site, { x, axes, keepdims }) => {
  let result = x;
  for (const axis of axes) {
    if ((x.shape[axis] as number) > factorsMax)
      site.refuse(`multiplies ${x.shape[axis]} factors, at most ${factorsMax}`);
    while ((result.shape[axis] as number) > 1) {
      const size = result.shape[axis] as number;
      const half = size >> 1;
      const pairs = site.mul(site.slice(result, axis, 0, half), site.slice(result, axis, half, 2 * half));
      result = size % 2 === 0 ? pairs : site.op("Concat", [pairs, site.slice(result, axis, size - 1, size)], { axis });
    }
  }
  return keepdims === 1
    ? result
    : site.reshape(
        result,
        x.shape.filter((_, axis) => !axes.includes(axis)),
      );
});

/** The first (or last) place of the largest value along an axis, as floats with the axis kept. */
function placeOfLargest(site: Site, x: Value, axis: number, last: boolean): Value {
  const size = x.shape[axis] as number;
  const hit = site.op("Equal", [x, site.reduce("Max", x, [axis])]);
  const places = site.positions(size, axis, x.shape.length);
  if (last) return site.reduce("Max", site.where(hit, places, -1), [axis]);
  return site.op("Neg", [site.reduce("Max", site.where(hit, site.op("Neg", [places]), -size), [axis])]);
}

function argument(sign: 1 | -1): Translation {
  return (site) => {
    const given = site.cast(site.input(0), "float32");
    const x = sign === 1 ? given : site.op("Neg", [given]);
    const axis = site.axis(site.number("axis", 0), x.shape.length);
    const place = placeOfLargest(site, x, axis, site.number("select_last_index", 0) === 1);
    const kept = site.number("keepdims", 1) === 1;
    const shape = kept ? place.shape : place.shape.filter((_, at) => at !== axis);
    return site.cast(site.reshape(place, shape), "int64");
  };
}

/** Each of the k costs a pass over the axis. */
const topMax = 64;
/** Below every number that is left. */
const taken = -3.4028234663852886e38;

const topK: Translation = (site) => {
  const x = site.input(0);
  const k = site.known(1, "k")?.[0] ?? site.number("k", 1);
  const axis = site.axis(site.number("axis", -1), x.shape.length);
  site.ignore("sorted");
  const size = x.shape[axis] as number;
  if (!Number.isInteger(k) || k < 1 || k > Math.min(topMax, size))
    site.refuse(`k = ${k} must be from 1 to ${Math.min(topMax, size)}`);
  let rest = site.number("largest", 1) === 1 ? x : site.op("Neg", [x]);
  const places: Value[] = [];
  for (let i = 0; i < k; i++) {
    const place = placeOfLargest(site, rest, axis, false);
    places.push(place);
    const hit = site.op("Equal", [site.positions(size, axis, x.shape.length), place]);
    rest = site.where(hit, taken, rest);
  }
  const indices = site.cast(places.length === 1 ? (places[0] as Value) : site.op("Concat", places, { axis }), "int64");
  return [site.op("GatherElements", [x, indices], { axis }), indices];
};

/** 1 at the first largest, 0 elsewhere. */
const hardmax: Translation = (site) => {
  const x = site.input(0);
  const axis = site.axis(site.number("axis", site.opset >= 13 ? -1 : 1), x.shape.length);
  if (site.opset < 13 && axis !== x.shape.length - 1) site.refuse("joins several axes, as before opset 13");
  const place = placeOfLargest(site, x, axis, false);
  return site.cast(site.op("Equal", [site.positions(x.shape[axis] as number, axis, x.shape.length), place]), x.dtype);
};

/** The sum up to each place: a product with a triangle of ones. */
const cumSum: Translation = (site) => {
  const x = site.input(0);
  const axis = site.axis(site.known(1, "axis")?.[0] ?? 0, x.shape.length);
  const [exclusive, reverse] = [site.number("exclusive", 0), site.number("reverse", 0)];
  const size = x.shape[axis] as number;
  if (size * size > 1 << 24) site.refuse(`adds up along ${size} places, at most 4096`);
  const matrix = new Float32Array(size * size);
  for (let i = 0; i < matrix.length; i++) {
    const [row, column] = [Math.floor(i / size), i % size];
    const behind = reverse === 1 ? column - row : row - column;
    matrix[i] = behind >= (exclusive === 1 ? 1 : 0) ? 1 : 0;
  }
  const floats = site.cast(x, "float32");
  return site.cast(site.along(floats, axis, size, matrix), x.dtype);
};

const square = (site: Site, x: Value) => site.mul(x, x);

export const reductions: Translations = {
  ReduceSum: plain("Sum"),
  ReduceMean: plain("Mean"),
  ReduceMax: plain("Max"),
  ReduceMin: reduction((site, { x, axes, keepdims }) =>
    site.op("Neg", [site.reduce("Max", site.op("Neg", [x]), axes, keepdims)]),
  ),
  ReduceProd: product,
  ReduceL1: reduction((site, { x, axes, keepdims }) => site.reduce("Sum", site.op("Abs", [x]), axes, keepdims)),
  ReduceL2: reduction((site, { x, axes, keepdims }) =>
    site.op("Sqrt", [site.reduce("Sum", square(site, x), axes, keepdims)]),
  ),
  ReduceSumSquare: reduction((site, { x, axes, keepdims }) => site.reduce("Sum", square(site, x), axes, keepdims)),
  ReduceLogSum: reduction((site, { x, axes, keepdims }) => site.op("Log", [site.reduce("Sum", x, axes, keepdims)])),
  ReduceLogSumExp: logSumExp,
  ArgMax: argument(1),
  ArgMin: argument(-1),
  TopK: topK,
  Hardmax: hardmax,
  CumSum: cumSum,
  GlobalMaxPool: (site) => site.reduce("Max", site.input(0), spatialAxes(site.input(0))),
  GlobalAveragePool: (site) => site.reduce("Mean", site.input(0), spatialAxes(site.input(0))),
  GlobalLpPool: (site) => {
    const x = site.input(0);
    const p = site.number("p", 2);
    const magnitudes = site.op("Abs", [x]);
    if (p === 1) return site.reduce("Sum", magnitudes, spatialAxes(x));
    if (p === 2) return site.op("Sqrt", [site.reduce("Sum", square(site, x), spatialAxes(x))]);
    return site.refuse(`p = ${p} is not supported, only 1 and 2`);
  },
};

function spatialAxes(x: Value): number[] {
  const axes = x.shape.map((_, axis) => axis).slice(2);
  return axes.length > 0 && elementCount(x.shape) > 0 ? axes : [];
}
