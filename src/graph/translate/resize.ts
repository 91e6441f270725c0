// Resize and Upsample of ONNX files: along each axis a product with a matrix that says how much of which old place makes
// a new one. It holds for nearest, linear and cubic alike, and has a derivative by itself.

import type { Value } from "../operators/operator.ts";
import type { Site, Translation, Translations } from "./site.ts";

interface Rule {
  readonly mode: string;
  readonly coordinates: string;
  readonly nearest: string;
  readonly cubic: number;
  readonly excludesOutside: boolean;
}

/** More would be images that nobody trains on. */
const matrixElementsMax = 1 << 21;
/** Of an axis: pictures are not larger. */
const placesMax = 1 << 14;

/** Where a new place lies among the old ones. */
function coordinate(rule: Rule, at: number, size: number, count: number, scale: number): number | undefined {
  switch (rule.coordinates) {
    case "half_pixel":
      return (at + 0.5) / scale - 0.5;
    case "half_pixel_symmetric":
      return size / 2 - (scale * size) / (2 * scale) + (at + 0.5) / scale - 0.5;
    case "pytorch_half_pixel":
      return count > 1 ? (at + 0.5) / scale - 0.5 : 0;
    case "asymmetric":
      return at / scale;
    case "align_corners":
      return count > 1 ? (at * (size - 1)) / (count - 1) : 0;
    default:
      return undefined;
  }
}

function nearestOf(rule: Rule, x: number): number | undefined {
  switch (rule.nearest) {
    case "round_prefer_floor":
      return Math.ceil(x - 0.5);
    case "round_prefer_ceil":
      return Math.floor(x + 0.5);
    case "floor":
      return Math.floor(x);
    case "ceil":
      return Math.ceil(x);
    default:
      return undefined;
  }
}

/** Keys' kernel: four neighbours around x. */
function cubicShares(x: number, a: number): [number, number][] {
  const first = Math.floor(x) - 1;
  return [0, 1, 2, 3].map((i) => {
    const d = Math.abs(x - (first + i));
    const share = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
    return [first + i, share];
  });
}

/** Old places with their shares in the new place `x`. */
function sharesOf(site: Site, rule: Rule, x: number): [number, number][] {
  if (rule.mode === "nearest")
    return [[nearestOf(rule, x) ?? site.refuse(`nearest_mode "${rule.nearest}" is not supported`), 1]];
  if (rule.mode === "linear")
    return [
      [Math.floor(x), 1 - (x - Math.floor(x))],
      [Math.floor(x) + 1, x - Math.floor(x)],
    ];
  if (rule.mode === "cubic") return cubicShares(x, rule.cubic);
  return site.refuse(`mode "${rule.mode}" is not supported: nearest, linear and cubic are`);
}

function matrixOf(site: Site, rule: Rule, size: number, count: number, scale: number): Float32Array {
  if (count > placesMax || size * count > matrixElementsMax) site.refuse(`from ${size} to ${count} places is too much`);
  const matrix = new Float32Array(size * count);
  for (let at = 0; at < count; at++) {
    const x =
      coordinate(rule, at, size, count, scale) ??
      site.refuse(`coordinate_transformation_mode "${rule.coordinates}" is not supported`);
    const shares = sharesOf(site, rule, x);
    const inside = shares.filter(([place]) => !rule.excludesOutside || (place >= 0 && place < size));
    const total = rule.excludesOutside ? inside.reduce((sum, [, share]) => sum + share, 0) : 1;
    for (const [place, share] of inside) {
      const clamped = at * size + Math.min(size - 1, Math.max(0, place));
      matrix[clamped] = (matrix[clamped] as number) + share / total;
    }
  }
  return matrix;
}

function resized(
  site: Site,
  rule: Rule,
  scales: readonly number[] | undefined,
  sizes: readonly number[] | undefined,
): Value {
  const x = site.input(0);
  const axes = site.numbers("axes")?.map((axis) => site.axis(axis, x.shape.length)) ?? x.shape.map((_, axis) => axis);
  const given = sizes ?? scales ?? site.refuse("has neither scales nor sizes");
  if (given.length !== axes.length) site.refuse(`needs ${axes.length} scales or sizes, got [${given}]`);
  let result = x;
  for (const [i, axis] of axes.entries()) {
    const size = x.shape[axis] as number;
    const count = sizes ? (sizes[i] as number) : Math.floor(size * (scales?.[i] as number));
    if (count < 1 || !Number.isInteger(count)) site.refuse(`gives axis ${axis} the size ${count}`);
    const scale = sizes ? count / size : (scales?.[i] as number);
    if (count === size && scale === 1) continue;
    result = site.along(result, axis, count, matrixOf(site, rule, size, count, scale));
  }
  return result;
}

const listOf = (list: number[] | undefined) => (list !== undefined && list.length > 0 ? list : undefined);

const resize: Translation = (site) => {
  site.only("antialias", 0);
  site.only("keep_aspect_ratio_policy", "stretch");
  site.ignore("extrapolation_value");
  const rule: Rule = {
    mode: site.text("mode", "nearest"),
    coordinates: site.text("coordinate_transformation_mode", site.opset >= 11 ? "half_pixel" : "asymmetric"),
    nearest: site.text("nearest_mode", site.opset >= 11 ? "round_prefer_floor" : "floor"),
    cubic: site.number("cubic_coeff_a", -0.75),
    excludesOutside: site.number("exclude_outside", 0) === 1,
  };
  const [at, sizesAt] = site.opset >= 11 ? [2, 3] : [1, undefined];
  const sizes = sizesAt === undefined ? undefined : listOf(site.known(sizesAt, "sizes"));
  return resized(site, rule, listOf(site.known(at, "scales")), sizes);
};

const upsample: Translation = (site) => {
  const rule: Rule = {
    mode: site.text("mode", "nearest"),
    coordinates: "asymmetric",
    nearest: "floor",
    cubic: -0.75,
    excludesOutside: false,
  };
  return resized(site, rule, site.numbers("scales") ?? site.known(1, "scales"), undefined);
};

export const resizes: Translations = { Resize: resize, Upsample: upsample };
