// Attention over cached keys and values, for rows of one request. Its order of sums is fixed: the scores of a row are sums
// over the elements of a head in their order, the weights are added in four lanes by position, and values are added position
// by position. So a row has the same bits alone, in a batch of any size and in any chunk of a prompt, on every machine.
// Queries and keys are turned by their positions here (rotation.ts): in a graph that would be most of its operators.

import type { UnitAttention } from "../../graph/unit.ts";
import {
  addF32,
  addI32,
  andI32,
  atLeastI32,
  type Code,
  choose,
  f32x4,
  get,
  i32,
  i32x4,
  type Local,
  load,
  mulI32,
  type Statement,
  set,
  shiftRightI32,
  smallerI32,
  splatF32,
  splatI32,
  store,
  subI32,
  v128,
  whileLoop,
} from "../kernels/wasm.ts";
import { type FunctionBuilder, ModuleBuilder } from "../kernels/wasm-module.ts";
import { expOf, tanhOf } from "../portable/functions.ts";
import { advance, counted, type Int, loadAt, storeAt } from "./loops.ts";
import { emitRotation } from "./rotation.ts";

/** Positions whose keys and values lie together. A power of two, and a multiple of a vector's lanes. */
export const pagePositions = 32;
const pageShift = 5;
const vectors = pagePositions / 4;
/** Sums that are kept in registers while values are added. */
const sumsAtOnce = 8;

type Shape = Pick<UnitAttention, "heads" | "kvHeads" | "headDim">;

/** Elements of a head, filled up to whole vectors. */
function paddedWidth({ headDim }: Shape): number {
  return Math.ceil(headDim / 4) * 4;
}

/** Keys lie [kvHeads, headDim, positions], so that four positions are one vector; values [kvHeads, positions, headDim]. */
function keyBytes({ kvHeads, headDim }: Shape): number {
  return 4 * kvHeads * headDim * pagePositions;
}

/** Of one page. */
export function cachePageBytes(shape: Shape): number {
  return keyBytes(shape) + 4 * shape.kvHeads * pagePositions * paddedWidth(shape);
}

export interface AttendCall {
  /** Addresses of the first row's queries, keys and values, and of the result, [rows, heads headDim]. Queries and keys are turned in place. */
  readonly query: number;
  readonly key: number;
  readonly value: number;
  readonly result: number;
  readonly rows: number;
  /** Of the first row. */
  readonly position: number;
  /** Address of the addresses of the request's pages. */
  readonly pages: number;
  /** Room for a float for each position of those pages. */
  readonly scores: number;
  /** Address of [heads, context], where a bias is added. */
  readonly bias: number;
  /** Addresses of the tables, where queries and keys are turned. */
  readonly cos: number;
  readonly sin: number;
}

export type Attend = (call: AttendCall) => void;

/**
 * One for each shape and setting of attention; it works in one memory. `offset`: of its part within a page. Compiled at once, not
 * aside: it is small, and the simulator's worlds would depend on how long the machine takes.
 */
export function compileAttention(attention: UnitAttention, offset: number, memory: WebAssembly.Memory): Attend {
  const module = new ModuleBuilder(1);
  module.define("attend", (fn) => {
    emitAttention(fn, attention, offset);
    return undefined;
  });
  const instance = new WebAssembly.Instance(new WebAssembly.Module(module.bytes()), { env: { memory0: memory } });
  const attend = instance.exports["attend"] as (...given: number[]) => void;
  return ({ query, key, value, result, rows, position, pages, scores, bias, cos, sin }) =>
    attend(query, key, value, result, rows, position, pages, scores, bias, cos, sin);
}

const parameterNames = [
  ...(["query", "key", "value", "result", "rows", "position", "pages", "scores", "bias", "cos", "sin"] as const),
] as const;
const localNames = [
  ...["row", "at", "first", "page", "pageIndex", "head", "group", "d", "slot", "from", "to", "block", "p", "end"],
  ...["score", "biasAt"],
] as const;
type Names = Record<(typeof parameterNames)[number] | (typeof localNames)[number], Int>;

function emitAttention(fn: FunctionBuilder, attention: UnitAttention, offset: number): void {
  const parameters = parameterNames.map((name) => [name, fn.parameter("i32")] as const);
  const locals = localNames.map((name) => [name, fn.local("i32")] as const);
  const n = Object.fromEntries([...parameters, ...locals]) as Names;
  const { heads, kvHeads, headDim, window, rope } = attention;
  if (rope !== undefined) {
    const turned = { rows: n.rows, position: n.position, cos: n.cos, sin: n.sin, headDim, rope };
    emitRotation(fn, { ...turned, first: n.query, heads, stride: attention.query.stride });
    emitRotation(fn, { ...turned, first: n.key, heads: kvHeads, stride: attention.key.stride });
  }
  fn.emit(...counted(n.row, i32(0), get(n.rows), appendRow(n, attention, offset)));
  const oneHead = fn.captured(() => emitHead(fn, n, attention, offset));
  const first =
    window === undefined
      ? i32(0)
      : choose(atLeastI32(get(n.at), i32(window)), subI32(get(n.at), i32(window - 1)), i32(0));
  const perGroup = heads / kvHeads;
  fn.emit(
    ...counted(n.row, i32(0), get(n.rows), [
      set(n.at, addI32(get(n.position), get(n.row))),
      set(n.first, first),
      ...counted(n.group, i32(0), i32(kvHeads), [
        ...counted(n.head, i32(0), i32(perGroup), [
          oneHead,
          advance(n.query, i32(4 * headDim)),
          advance(n.result, i32(4 * headDim)),
        ]),
      ]),
      advance(n.query, i32(4 * (attention.query.stride - heads * headDim))),
    ]),
  );
}

/** The page of position `p`, at this attention's part of it. */
function pageOf(n: Names, index: Code<"i32">, offset: number): Code<"i32"> {
  return addI32(load.i32(addI32(get(n.pages), mulI32(index, i32(4)))), i32(offset));
}

/** Writes the row's keys and values to its place in the pages. */
function appendRow(n: Names, attention: UnitAttention, offset: number): Statement[] {
  const { kvHeads, headDim } = attention;
  const width = paddedWidth(attention);
  return [
    set(n.at, addI32(get(n.position), get(n.row))),
    set(n.page, pageOf(n, shiftRightI32(get(n.at), i32(pageShift)), offset)),
    set(n.slot, andI32(get(n.at), i32(pagePositions - 1))),
    ...counted(n.group, i32(0), i32(kvHeads), [
      set(n.to, addI32(get(n.page), mulI32(get(n.group), i32(4 * headDim * pagePositions)))),
      advance(n.to, mulI32(get(n.slot), i32(4))),
      ...counted(n.d, i32(0), i32(headDim), [
        store.f32(get(n.to), load.f32(get(n.key))),
        advance(n.to, i32(4 * pagePositions)),
        advance(n.key, i32(4)),
      ]),
      set(n.to, addI32(get(n.page), i32(keyBytes(attention)))),
      advance(n.to, mulI32(addI32(mulI32(get(n.group), i32(pagePositions)), get(n.slot)), i32(4 * width))),
      ...counted(n.d, i32(0), i32(headDim), [
        store.f32(get(n.to), load.f32(get(n.value))),
        advance(n.to, i32(4)),
        advance(n.value, i32(4)),
      ]),
    ]),
    advance(n.key, i32(4 * (attention.key.stride - kvHeads * headDim))),
    advance(n.value, i32(4 * (attention.value.stride - kvHeads * headDim))),
  ];
}

/** One head of one row: its scores, their weights, and the sum of values. */
function emitHead(fn: FunctionBuilder, n: Names, attention: UnitAttention, offset: number): void {
  const largest = fn.local("v128");
  const firstBlock = shiftRightI32(get(n.first), i32(pageShift));
  const blocks = addI32(shiftRightI32(get(n.at), i32(pageShift)), i32(1));
  fn.emit(set(largest, f32x4.splat(Number.NEGATIVE_INFINITY)));
  const scoring = fn.captured(() => emitScores(fn, n, attention, offset, largest));
  fn.emit(...counted(n.block, firstBlock, blocks, [scoring]));
  const lane = (vector: Local<"v128">, index: number) => f32x4.lane(get(vector), index);
  const largestOf = [1, 2, 3].reduce(
    (most, index) => f32x4.max(most, splatF32(lane(largest, index))),
    splatF32(lane(largest, 0)),
  );
  fn.emit(set(largest, largestOf));
  const sum = fn.local("v128");
  fn.emit(set(sum, f32x4.splat(0)));
  const weighing = fn.captured(() => emitWeights(fn, n, largest, sum));
  fn.emit(
    ...counted(n.block, mulI32(firstBlock, i32(vectors)), mulI32(blocks, i32(vectors)), [weighing]),
    set(sum, splatF32(addF32(addF32(lane(sum, 0), lane(sum, 1)), addF32(lane(sum, 2), lane(sum, 3))))),
  );
  emitMixture(fn, n, attention, offset, sum);
}

/** The scores of one page's positions; those that the row does not see are minus infinity. */
function emitScores(
  fn: FunctionBuilder,
  n: Names,
  { headDim, heads, kvHeads, scale, cap, bias }: UnitAttention,
  offset: number,
  largest: Local<"v128">,
): void {
  const sums = Array.from({ length: vectors }, () => fn.local("v128"));
  const factor = fn.local("v128");
  fn.emit(
    set(n.page, pageOf(n, get(n.block), offset)),
    set(n.from, addI32(get(n.page), mulI32(get(n.group), i32(4 * headDim * pagePositions)))),
    set(n.to, get(n.query)),
    ...sums.map((sum) => set(sum, f32x4.splat(0))),
    ...counted(n.d, i32(0), i32(headDim), [
      set(factor, f32x4.mul(v128.loadSplat(get(n.to)), fn.literal(f32x4.splat(scale)))),
      ...sums.map((sum, v) => set(sum, f32x4.add(get(sum), f32x4.mul(get(factor), loadAt(n.from, 16 * v))))),
      advance(n.from, i32(4 * pagePositions)),
      advance(n.to, i32(4)),
    ]),
    set(n.score, addI32(get(n.scores), mulI32(get(n.block), i32(4 * pagePositions)))),
  );
  if (bias !== undefined) {
    const head = addI32(mulI32(get(n.group), i32(heads / kvHeads)), get(n.head));
    const start = addI32(get(n.bias), mulI32(head, i32(4 * (bias.shape[1] as number))));
    fn.emit(set(n.biasAt, addI32(start, mulI32(get(n.block), i32(4 * pagePositions)))));
  }
  const numbers = fn.keep(i32x4.add(splatI32(mulI32(get(n.block), i32(pagePositions))), v128.words(0, 1, 2, 3)));
  for (const [v, sum] of sums.entries()) {
    const capped = cap === undefined ? get(sum) : bent(fn, get(sum), cap);
    const whole = fn.keep(bias === undefined ? capped : f32x4.add(capped, loadAt(n.biasAt, 16 * v)));
    const place = fn.keep(i32x4.add(get(numbers), fn.literal(i32x4.splat(4 * v))));
    const late = i32x4.greaterSigned(get(place), splatI32(get(n.at)));
    const early = i32x4.lessSigned(get(place), splatI32(get(n.first)));
    const hidden = fn.literal(f32x4.splat(Number.NEGATIVE_INFINITY));
    const seen = fn.keep(v128.select(hidden, get(whole), v128.or(late, early)));
    fn.emit(storeAt(n.score, get(seen), 16 * v), set(largest, f32x4.max(get(largest), get(seen))));
  }
}

function bent(fn: FunctionBuilder, score: Code<"v128">, cap: number): Code<"v128"> {
  const share = f32x4.mul(score, fn.literal(f32x4.splat(1 / cap)));
  return f32x4.mul(tanhOf(fn, share), fn.literal(f32x4.splat(cap)));
}

/** Four weights, not divided by their sum yet. What is hidden weighs exactly nothing. */
function emitWeights(fn: FunctionBuilder, n: Names, largest: Local<"v128">, sum: Local<"v128">): void {
  fn.emit(set(n.score, addI32(get(n.scores), mulI32(get(n.block), i32(16)))));
  const score = fn.keep(loadAt(n.score));
  const power = expOf(fn, f32x4.sub(get(score), get(largest)));
  const isSeen = f32x4.greater(get(score), fn.literal(f32x4.splat(Number.NEGATIVE_INFINITY)));
  const weight = fn.keep(v128.and(power, isSeen));
  fn.emit(storeAt(n.score, get(weight)), set(sum, f32x4.add(get(sum), get(weight))));
}

/** The sum of values by their weights, some vectors at a time. */
function emitMixture(
  fn: FunctionBuilder,
  n: Names,
  attention: UnitAttention,
  offset: number,
  total: Local<"v128">,
): void {
  const { headDim } = attention;
  const width = paddedWidth(attention);
  const factor = fn.local("v128");
  for (let start = 0; start < width / 4; start += sumsAtOnce) {
    const sums = Array.from({ length: Math.min(sumsAtOnce, width / 4 - start) }, () => fn.local("v128"));
    fn.emit(
      ...sums.map((sum) => set(sum, f32x4.splat(0))),
      set(n.p, get(n.first)),
      whileLoop(atLeastI32(get(n.at), get(n.p)), [
        set(n.slot, andI32(get(n.p), i32(pagePositions - 1))),
        set(n.page, pageOf(n, shiftRightI32(get(n.p), i32(pageShift)), offset)),
        set(n.from, addI32(get(n.page), i32(keyBytes(attention) + 16 * start))),
        advance(n.from, mulI32(addI32(mulI32(get(n.group), i32(pagePositions)), get(n.slot)), i32(4 * width))),
        set(n.score, addI32(get(n.scores), mulI32(get(n.p), i32(4)))),
        // Up to the page's end, or to the row itself where that comes first.
        set(n.end, smallerI32(subI32(i32(pagePositions), get(n.slot)), addI32(subI32(get(n.at), get(n.p)), i32(1)))),
        ...counted(n.d, i32(0), get(n.end), [
          set(factor, v128.loadSplat(get(n.score))),
          ...sums.map((sum, v) => set(sum, f32x4.add(get(sum), f32x4.mul(get(factor), loadAt(n.from, 16 * v))))),
          advance(n.from, i32(4 * width)),
          advance(n.score, i32(4)),
        ]),
        advance(n.p, get(n.end)),
      ]),
    );
    for (const [v, sum] of sums.entries()) {
      fn.emit(set(sum, f32x4.div(get(sum), get(total))));
      const element = 4 * (start + v);
      if (element + 4 <= headDim) fn.emit(storeAt(n.result, get(sum), 4 * element));
      else
        for (let lane = 0; element + lane < headDim; lane++)
          fn.emit(store.f32(get(n.result), f32x4.lane(get(sum), lane), 4 * (element + lane)));
    }
  }
}
