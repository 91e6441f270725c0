// MatMul, FusedMatMul and Gemm: tiles of both factors in a workgroup's memory, four by four sums for each thread. Along the depth sums
// are made in order, in pieces of 16; where few tiles share a great depth, pieces of it are made side by side and joined in order. All
// of it follows from shapes alone.

import { fail } from "../../core/errors.ts";
import { elementCount, type Shape } from "../../core/tensor.ts";
import type { GraphNode } from "../../graph/model.ts";
import { numberOf } from "../../graph/operators/check.ts";
import { broadcastTo, reshaped, type View } from "../portable/views.ts";
import { type Context, placesAt } from "./context.ts";
import { groupsFor, literal, Shader, threads } from "./shader.ts";

/** Of the depth that a tile holds. */
const depthOfTile = 16;
/** With fewer tiles than this most of a GPU would idle: tiles are smaller, and then the depth is split. */
const tilesMin = 64;
const largeTile = 64;
const smallTile = 32;
/** A piece of the depth that is worth a workgroup of its own. */
const depthOfPiece = 256;
const piecesMax = 32;
/** What every WebGPU allows along one axis of a dispatch. */
const stackMax = 65_535;

export function lowerProduct(context: Context, node: GraphNode): void {
  const [nameA, nameB, nameC] = node.inputs as [string, string, string?];
  const out = node.outputs[0] as string;
  const { dtype, shape } = context.info(out);
  const a = turned(context.view(nameA), numberOf(node.attributes, "transA", 0) === 1);
  const b = turned(context.view(nameB), numberOf(node.attributes, "transB", 0) === 1);
  if (dtype !== "float32" || elementCount(a.shape) === 0)
    fail("unimplemented", `${node.op} of ${dtype}[${a.shape}] does not run on the GPUs of browsers`);
  const c = context.fresh("float32", shape);
  const beta = numberOf(node.attributes, "beta", 1);
  const onto = nameC === undefined ? undefined : { base: broadcastTo(context.view(nameC), c.shape), beta };
  pushProduct(context, node.op, { a, b, c, onto }, numberOf(node.attributes, "alpha", 1));
  context.define(out, c);
}

function turned(view: View, transposed: boolean): View {
  if (!transposed) return view;
  const swap = <T>(list: readonly T[]) => [...list.slice(0, -2), ...list.slice(-2).reverse()];
  return { ...view, shape: swap(view.shape), strides: swap(view.strides) };
}

interface Onto {
  readonly base: View;
  readonly beta: number;
}

interface Matrices {
  readonly a: View;
  readonly b: View;
  readonly c: View;
  readonly onto?: Onto | undefined;
}

/** c = beta base + alpha a b for stacks of matrices that broadcast. */
function pushProduct(context: Context, what: string, given: Matrices, alpha: number): void {
  const { a, b, c, onto } = oneMatrix(given) ?? given;
  const [rows, columns] = c.shape.slice(-2) as [number, number];
  const depth = a.shape.at(-1) as number;
  const stack = c.shape.slice(0, -2);
  const tilesOf = (size: number) => Math.ceil(rows / size) * Math.ceil(columns / size) * elementCount(stack);
  const tile = tilesOf(largeTile) >= tilesMin ? largeTile : smallTile;
  const wanted = tilesOf(tile) >= tilesMin ? 1 : Math.min(piecesMax, Math.floor(depth / depthOfPiece));
  const perPiece = Math.ceil(depth / Math.max(wanted, 1) / depthOfTile) * depthOfTile;
  const pieces = Math.ceil(depth / perPiece);
  if (elementCount(stack) * pieces > stackMax)
    fail("unimplemented", `${what} of ${elementCount(stack)} matrices at once does not run on the GPUs of browsers`);
  const wide = {
    a: broadcastTo(a, [...stack, rows, depth]),
    b: broadcastTo(b, [...stack, depth, columns]),
    ...{ tile, perPiece, pieces, alpha },
  };
  if (pieces === 1) {
    pushTiles(context, what, { ...wide, c, onto });
    return;
  }
  const parts = context.fresh("float32", [pieces, ...c.shape]);
  pushTiles(context, what, { ...wide, c: parts, onto: undefined, alpha: 1 });
  pushJoin(context, what, { parts, c, onto, alpha });
}

/** A stack on the left of one matrix is one taller matrix, where strides allow it. */
function oneMatrix({ a, b, c, onto }: Matrices): Matrices | undefined {
  if (b.shape.length !== 2 || a.shape.length === 2 || onto !== undefined) return undefined;
  const flat = (shape: Shape) => [elementCount(shape.slice(0, -1)), shape.at(-1) as number];
  const [tallA, tallC] = [reshaped(a, flat(a.shape)), reshaped(c, flat(c.shape))];
  return tallA && tallC && { a: tallA, b, c: tallC };
}

interface Tiles extends Matrices {
  readonly tile: number;
  readonly perPiece: number;
  /** With more than one, `c` has an axis for them in front. */
  readonly pieces: number;
  readonly alpha: number;
}

const withoutMatrix = (view: View): View => ({
  ...view,
  shape: view.shape.slice(0, -2),
  strides: view.strides.slice(0, -2),
});

/** Sizes and steps are numbers of the shader: products of other sizes run by the same code. */
function pushTiles(context: Context, what: string, { a, b, c, onto, tile, perPiece, pieces, alpha }: Tiles): void {
  const shader = new Shader();
  const [rows, depth] = a.shape.slice(-2) as [number, number];
  const columns = b.shape.at(-1) as number;
  const count = elementCount(a.shape.slice(0, -2));
  const side = tile / 4;
  shader.share("left", `array<vec4f, ${depthOfTile * side}>`);
  shader.share("right", `array<vec4f, ${depthOfTile * side}>`);
  const piles = [a, b, ...(onto ? [onto.base] : [])].map(withoutMatrix);
  const places = placesAt(piles, pieces === 1 ? "pile" : "inPiece", "s");
  const results = placesAt([withoutMatrix(c)], "pile", "r");
  const steps = (view: View) => view.strides.slice(-2) as [number, number];
  const body = [
    `let rows = ${shader.number(rows)}; let columns = ${shader.number(columns)};`,
    `let top = i32(at.y) * ${tile}; let start = i32(at.x) * ${tile}; let pile = i32(at.z);`,
    ...(pieces === 1
      ? []
      : [`let piece = pile / ${shader.number(count)};`, `let inPiece = pile % ${shader.number(count)};`]),
    ...[...places.lines, ...results.lines],
    `let begin = ${pieces === 1 ? "0" : `piece * ${shader.number(perPiece)}`};`,
    `let end = min(begin + ${shader.number(perPiece)}, ${shader.number(depth)});`,
    ...four.map((i) => `var sum${i} = vec4f();`),
    `for (var k0 = begin; k0 < end; k0 += ${depthOfTile}) {`,
    ...fillTile(shader, a, { name: "left", base: places.at[0] as string, corner: "top", limit: "rows", side }),
    ...fillTile(shader, b, { name: "right", base: places.at[1] as string, corner: "start", limit: "columns", side }),
    "workgroupBarrier();",
    ...four.map((i) => `var part${i} = vec4f();`),
    `for (var k = 0; k < ${depthOfTile}; k++) {`,
    `let l = left[k * ${side} + lane / ${side}]; let r = right[k * ${side} + lane % ${side}];`,
    ...four.map((i) => `part${i} += l[${i}] * r;`),
    "}",
    ...four.map((i) => `sum${i} += part${i};`),
    ...["workgroupBarrier();", "}"],
    "for (var i = 0; i < 4; i++) {",
    `let y = top + lane / ${side} * 4 + i;`,
    "var line = select(select(sum0, sum1, i == 1), select(sum2, sum3, i == 3), i >= 2);",
    `for (var j = 0; j < 4; j++) {`,
    `let x = start + lane % ${side} * 4 + j;`,
    "if (y < rows && x < columns) {",
    `let value = ${alpha === 1 ? "line[j]" : `${literal(alpha)} * line[j]`};`,
    shader.store(
      c,
      placeIn(shader, results.at[0] as string, steps(c)),
      onto === undefined
        ? "value"
        : `value + ${baseCode(onto, shader.load(onto.base, placeIn(shader, places.at[2] as string, steps(onto.base))))}`,
    ),
    ...["}", "}", "}"],
  ];
  const groups = [Math.ceil(columns / tile), Math.ceil(rows / tile), count * pieces] as const;
  context.dispatch(shader.finish(what, body, [side, side], groups));
}

const four = [0, 1, 2, 3];

function placeIn(shader: Shader, base: string, [row, column]: readonly [number, number]): string {
  return `${base} + y * ${shader.number(row)} + x * ${shader.number(column)}`;
}

function baseCode({ beta }: Onto, base: string): string {
  return beta === 1 ? base : `${literal(beta)} * ${base}`;
}

interface TileSource {
  readonly name: "left" | "right";
  readonly base: string;
  readonly corner: string;
  readonly limit: string;
  readonly side: number;
}

/** Neighbouring threads read neighbouring elements. */
function fillTile(shader: Shader, view: View, { name, base, corner, limit, side }: TileSource): string[] {
  const [rowStep, columnStep] = view.strides.slice(-2) as [number, number];
  const [acrossStep, depthStep] = name === "left" ? [rowStep, columnStep] : [columnStep, rowStep];
  const [inTile, quad] =
    depthStep === 1 ? [`slot % ${depthOfTile}`, `slot / ${depthOfTile}`] : [`slot / ${side}`, `slot % ${side}`];
  const place = `${base} + across * ${shader.number(acrossStep)} + k * ${shader.number(depthStep)}`;
  return [
    `for (var slot = lane; slot < ${depthOfTile * side}; slot += ${side * side}) {`,
    `let inTile = ${inTile}; let quad = ${quad}; let k = k0 + inTile;`,
    "var four = vec4f();",
    "for (var i = 0; i < 4; i++) {",
    `let across = ${corner} + quad * 4 + i;`,
    `if (across < ${limit} && k < end) { four[i] = ${shader.load(view, place)}; }`,
    "}",
    `${name}[inTile * ${side} + quad] = four;`,
    "}",
  ];
}

interface Joined {
  readonly parts: View;
  readonly c: View;
  readonly onto?: Onto | undefined;
  readonly alpha: number;
}

/** Adds the pieces of the depth, in order. */
function pushJoin(context: Context, what: string, { parts, c, onto, alpha }: Joined): void {
  const shader = new Shader();
  const [pieces, ...shape] = parts.shape as [number, ...number[]];
  const one: View = { ...parts, shape, strides: parts.strides.slice(1) };
  const { lines, at } = placesAt([c, one, ...(onto ? [onto.base] : [])], "i", "");
  const count = elementCount(shape);
  const base = onto && shader.load(onto.base, at[2] as string);
  const added = onto === undefined ? "" : ` + ${baseCode(onto, base as string)}`;
  const body = [
    ...[`let i = group * ${threads} + lane;`, `if (i >= ${count}) { return; }`, ...lines, "var sum = 0f;"],
    `for (var piece = 0; piece < ${pieces}; piece++) { sum += ${shader.load(parts, `${at[1]} + piece * ${parts.strides[0]}`)}; }`,
    shader.store(c, at[0] as string, `${alpha === 1 ? "sum" : `${literal(alpha)} * sum`}${added}`),
  ];
  context.dispatch(shader.finish(what, body, [threads, 1], groupsFor(Math.ceil(count / threads))));
}
