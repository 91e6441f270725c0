// Operators of ONNX files that move, repeat, pick or describe elements.

import { elementCount } from "../../core/tensor.ts";
import type { Value } from "../operators/operator.ts";
import { filledBy, type Site, type Translation, type Translations, tensorOf } from "./site.ts";

const shape: Translation = (site) => {
  const sizes = site.input(0).shape;
  const [start, end] = [site.number("start", 0), site.number("end", sizes.length)];
  const picked = sizes.slice(start, end);
  return site.builder.constant(tensorOf("int64", [picked.length], picked));
};

/** Repeats by an axis of size 1 beside each axis. */
const tile: Translation = (site) => {
  const x = site.input(0);
  const repeats = site.known(1, "repeats") ?? site.refuse("lacks its repeats");
  if (repeats.length !== x.shape.length) site.refuse(`needs ${x.shape.length} repeats, got [${repeats}]`);
  const apart = x.shape.flatMap((size) => [1, size]);
  const wide = x.shape.flatMap((size, axis) => [repeats[axis] as number, size]);
  return site.reshape(
    site.op("Expand", [site.reshape(x, apart)], { shape: wide }),
    x.shape.map((size, axis) => size * (repeats[axis] as number)),
  );
};

/** Where a place comes from, counted from the first that was there before. */
function sourceOf(mode: string, size: number, before: number, after: number): ((at: number) => number) | undefined {
  if (mode === "edge") return (at) => Math.min(size - 1, Math.max(0, at));
  if (mode === "wrap") return (at) => ((at % size) + size) % size;
  if (mode !== "reflect" || before >= size || after >= size) return undefined;
  return (at) => (at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at);
}

const pad: Translation = (site) => {
  const x = site.input(0);
  const rank = x.shape.length;
  const given = site.numbers("pads") ?? site.numbers("paddings") ?? site.known(1, "pads") ?? [];
  const value = site.known(2, "value")?.[0] ?? site.number("value", 0);
  const axes = site.known(3, "axes")?.map((axis) => site.axis(axis, rank)) ?? x.shape.map((_, axis) => axis);
  if (given.length !== 2 * axes.length) site.refuse(`needs ${2 * axes.length} pads, got [${given}]`);
  const pads = new Array<number>(2 * rank).fill(0);
  for (const [i, axis] of axes.entries()) {
    pads[axis] = given[i] as number;
    pads[axis + rank] = given[i + axes.length] as number;
  }
  let inside = x;
  // Negative pads cut.
  for (let axis = 0; axis < rank; axis++) {
    const [before, after] = [pads[axis] as number, pads[axis + rank] as number];
    inside = site.slice(inside, axis, Math.max(0, -before), (x.shape[axis] as number) - Math.max(0, -after));
  }
  const positive = pads.map((size) => Math.max(0, size));
  const mode = site.text("mode", "constant");
  if (mode === "constant")
    return positive.every((size) => size === 0) ? inside : site.op("Pad", [inside], { pads: positive, value });
  for (let axis = 0; axis < rank; axis++) {
    const [before, after] = [positive[axis] as number, positive[axis + rank] as number];
    if (before === 0 && after === 0) continue;
    const size = inside.shape[axis] as number;
    const padded = before + size + after;
    const source =
      sourceOf(mode, size, before, after) ??
      site.refuse(
        `mode "${mode}" by ${before} and ${after} is not supported: constant, edge, wrap and reflect (by less than the size) are`,
      );
    inside = picked(site, inside, axis, padded, (i) => source(i - before));
  }
  return inside;
};

/** Axes of which single places are picked are those of pictures, texts and tables. */
const pickedMax = 1 << 18;

function picked(site: Site, x: Value, axis: number, count: number, source: (place: number) => number): Value {
  if (count > pickedMax) site.refuse(`picks ${count} places of an axis, at most ${pickedMax} are supported`);
  return site.op("Gather", [x, site.builder.constant(filledBy("int64", [count], source))], { axis });
}

const depthToSpace: Translation = (site) => {
  const x = site.input(0);
  const block = site.number("blocksize", 1);
  const mode = site.text("mode", "DCR");
  const [batch, channels, height, width] = x.shape as [number, number, number, number];
  const depth = channels / (block * block);
  if (x.shape.length !== 4 || !Number.isInteger(depth)) site.refuse(`does not fit blocks of ${block}`);
  const [apart, perm] =
    mode === "DCR"
      ? [
          [batch, block, block, depth, height, width],
          [0, 3, 4, 1, 5, 2],
        ]
      : [
          [batch, depth, block, block, height, width],
          [0, 1, 4, 2, 5, 3],
        ];
  const turned = site.transpose(site.reshape(x, apart), perm);
  return site.reshape(turned, [batch, depth, height * block, width * block]);
};

const spaceToDepth: Translation = (site) => {
  const x = site.input(0);
  const block = site.number("blocksize", 1);
  const [batch, channels, height, width] = x.shape as [number, number, number, number];
  if (x.shape.length !== 4 || height % block !== 0 || width % block !== 0)
    site.refuse(`does not fit blocks of ${block}`);
  const apart = site.reshape(x, [batch, channels, height / block, block, width / block, block]);
  return site.reshape(site.transpose(apart, [0, 3, 5, 1, 2, 4]), [
    batch,
    channels * block * block,
    height / block,
    width / block,
  ]);
};

const oneHot: Translation = (site) => {
  const indices = site.cast(site.input(0), "float32");
  const depth = site.known(1, "depth")?.[0] ?? 0;
  const values = site.input(2);
  const axis = site.axis(site.number("axis", -1), indices.shape.length + 1);
  const shape = [...indices.shape.slice(0, axis), 1, ...indices.shape.slice(axis)];
  const wrapped = site.where(site.less(indices, 0), site.add(indices, depth), indices);
  const hit = site.op("Equal", [site.reshape(wrapped, shape), site.positions(depth, axis, shape.length)]);
  const [off, on] = [site.slice(values, 0, 0, 1), site.slice(values, 0, 1, 2)].map((value) => site.reshape(value, []));
  return site.op("Where", [hit, on as Value, off as Value]);
};

/** Indices into leading axes become one index into those axes joined. */
const gatherND: Translation = (site) => {
  const [data, indices] = [site.input(0), site.cast(site.input(1), "int64")];
  site.only("batch_dims", 0);
  const depth = indices.shape.at(-1) as number;
  const joined = data.shape.slice(0, depth);
  const steps = joined.map((_, axis) => elementCount(joined.slice(axis + 1)));
  const sizes = site.builder.constant(tensorOf("int64", [depth], joined));
  const wrapped = site.where(site.less(indices, 0), site.add(indices, sizes), indices);
  const scaled = site.mul(wrapped, site.builder.constant(tensorOf("int64", [depth], steps)));
  const flat = site.reduce("Sum", scaled, [indices.shape.length - 1], 0);
  const rows = site.reshape(data, [elementCount(joined), ...data.shape.slice(depth)]);
  return site.op("Gather", [rows, flat], { axis: 0 });
};

const trilu: Translation = (site) => {
  const x = site.input(0);
  const k = site.known(1, "k")?.[0] ?? 0;
  const upper = site.number("upper", 1) === 1;
  const [rows, columns] = x.shape.slice(-2) as [number, number];
  const kept = filledBy("bool", [rows, columns], (i) => {
    const distance = (i % columns) - Math.floor(i / columns);
    return (upper ? distance >= k : distance <= k) ? 1 : 0;
  });
  const mask = site.builder.constant(kept);
  if (x.dtype !== "bool") return site.where(mask, x, 0);
  return site.greater(site.where(mask, site.cast(x, "float32"), 0), 0.5);
};

/** From `start` to before `end`, both counted as ONNX does: how many places, and the first of them. */
function stretchOf(size: number, start: number, end: number, step: number): { count: number; from: number } {
  const [low, high] = step > 0 ? [0, size] : [-1, size - 1];
  const place = (at: number) => Math.min(Math.max(at < 0 ? at + size : at, low), high);
  const [from, to] = [place(start), end < -size && step < 0 ? -1 : place(end)];
  return { count: Math.max(0, Math.ceil((to - from) / step)), from };
}

/** Steps other than 1 become picks of known places, which have a derivative. */
const slice: Translation = (site) => {
  const x = site.input(0);
  const starts = site.numbers("starts") ?? site.known(1, "starts") ?? site.refuse("lacks its starts");
  const ends = site.numbers("ends") ?? site.known(2, "ends") ?? site.refuse("lacks its ends");
  const axes = site.numbers("axes") ?? site.known(3, "axes") ?? starts.map((_, axis) => axis);
  const steps = site.known(4, "steps") ?? starts.map(() => 1);
  if (steps.every((step) => step === 1)) return site.op("Slice", [x], { starts, ends, axes, steps });
  let result = x;
  for (const [i, given] of axes.entries()) {
    const axis = site.axis(given, x.shape.length);
    const step = steps[i] as number;
    if (!Number.isSafeInteger(step) || step === 0) site.refuse(`cannot take steps of ${step}`);
    const { count, from } = stretchOf(x.shape[axis] as number, starts[i] as number, ends[i] as number, step);
    result = picked(site, result, axis, count, (at) => from + at * step);
  }
  return result;
};

/** A list of axes: an attribute, in newer files an input. */
function axesOf(site: Site): readonly number[] | undefined {
  return site.numbers("axes") ?? site.known(1, "axes");
}

const split: Translation = (site) => {
  const x = site.input(0);
  const axis = site.number("axis", 0);
  const sizes = site.numbers("split") ?? site.known(1, "sizes");
  const count = site.number("num_outputs", site.node.outputs.length);
  return site.builder.ops(
    "Split",
    [x],
    sizes ? { axis, split: sizes } : { axis, num_outputs: count },
    site.node.outputs.length,
  );
};

const reshape: Translation = (site) => {
  const x = site.input(0);
  const target = site.numbers("shape") ?? site.known(1, "shape") ?? site.refuse("lacks its shape");
  // A file for one sample says 1 where the batch belongs.
  if (site.opened !== undefined && target[0] === 1 && x.shape[0] === site.opened)
    return site.op("Reshape", [x], { shape: [site.opened, ...target.slice(1)] });
  const allowsZero = site.number("allowzero", 0) === 1;
  return site.op("Reshape", [x], { shape: target, ...(allowsZero && { allowzero: 1 }) });
};

const concat: Translation = (site) => {
  const axis = site.axis(site.number("axis", 0), site.input(0).shape.length);
  const given = site.inputs.map((_, i) => site.input(i));
  const { opened } = site;
  const grows = opened !== undefined && axis !== 0 && given.some(({ shape: [first] }) => first === opened);
  const inputs = given.map((x) =>
    grows && x.shape[0] === 1 ? site.op("Expand", [x], { shape: [opened, ...x.shape.slice(1)] }) : x,
  );
  return site.op("Concat", inputs, { axis });
};

export const shapes: Translations = {
  Shape: shape,
  Size: (site) => site.builder.constant(tensorOf("int64", [], [elementCount(site.input(0).shape)])),
  Identity: (site) => site.input(0),
  Dropout: (site) => {
    site.ignore("ratio", "seed", "is_test");
    return site.input(0);
  },
  Reshape: reshape,
  Flatten: (site) => site.op("Flatten", [site.input(0)], { axis: site.number("axis", 1) }),
  Squeeze: (site) => {
    const axes = axesOf(site);
    return site.op("Squeeze", [site.input(0)], axes ? { axes } : {});
  },
  Unsqueeze: (site) => site.op("Unsqueeze", [site.input(0)], { axes: axesOf(site) ?? [] }),
  Expand: (site) => site.op("Expand", [site.input(0)], { shape: site.known(1, "shape") ?? [] }),
  Concat: concat,
  Slice: slice,
  Split: split,
  Tile: tile,
  Pad: pad,
  DepthToSpace: depthToSpace,
  SpaceToDepth: spaceToDepth,
  OneHot: oneHot,
  GatherND: gatherND,
  Trilu: trilu,
};
