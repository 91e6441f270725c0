// Loops over strided views: pointers that walk outer axes, and rows of four elements at a time whose last few are handled
// lane by lane. Element i of a row is always in lane i % 4, wherever the row lies in memory.

import { type DType, elementBytes } from "../../core/tensor.ts";
import {
  addI32,
  type Code,
  f32x4,
  get,
  i32,
  i32x4,
  type Local,
  lessI32,
  load,
  mulI32,
  repeatWhile,
  type Statement,
  set,
  shiftRightI32,
  splatF32,
  splatI32,
  v128,
} from "../kernels/wasm.ts";
import type { FunctionBuilder } from "../kernels/wasm-module.ts";

type Vector = Code<"v128">;
export type Pointer = Local<"i32">;

/** Calls `body` for every place of `shape`; pointers start at `from` and move by strides in bytes. */
export function walk(
  fn: FunctionBuilder,
  shape: readonly number[],
  strides: readonly (readonly number[])[],
  from: readonly Code<"i32">[],
  body: (pointers: readonly Pointer[]) => void,
): void {
  const pointers = from.map((start) => fn.keep(start));
  walkAxis(fn, shape, strides, pointers, 0, () => body(pointers));
}

function walkAxis(
  fn: FunctionBuilder,
  shape: readonly number[],
  strides: readonly (readonly number[])[],
  pointers: readonly Pointer[],
  axis: number,
  body: () => void,
): void {
  if (axis === shape.length) {
    body();
    return;
  }
  const size = shape[axis] as number;
  const count = fn.local("i32");
  const inside = fn.captured(() => {
    walkAxis(fn, shape, strides, pointers, axis + 1, body);
    for (const [i, pointer] of pointers.entries()) {
      // The axes inside have moved the pointer to their end.
      const moved = axis + 1 < shape.length ? (strides[i]?.[axis + 1] as number) * (shape[axis + 1] as number) : 0;
      const rest = (strides[i]?.[axis] as number) - moved;
      if (rest !== 0) fn.emit(set(pointer, addI32(get(pointer), i32(rest))));
    }
    fn.emit(set(count, addI32(get(count), i32(1))));
  });
  fn.emit(set(count, i32(0)), repeatWhile(lessI32(get(count), i32(size)), [inside]));
}

/** Four elements of a row from `offset` on, which counts bytes of 32-bit elements. */
export interface Quad {
  readonly offset: Local<"i32">;
  /** Bytes more; 0 if absent. */
  readonly shift?: number;
  /** Addresses that groups side by side have in common, by pointer: neighbours are recognised by equal addresses. */
  readonly shared?: Map<number, Local<"i32">>;
  /** How many of them are in the row. */
  readonly count: number;
}

/** Calls `body` for groups of four elements; it emits code twice where the length is no multiple of four. */
export function eachQuad(fn: FunctionBuilder, length: number, body: (quad: Quad) => void): void {
  const offset = fn.local("i32");
  const whole = Math.floor(length / 4);
  fn.emit(set(offset, i32(0)));
  if (whole > 0) {
    const inside = fn.captured(() => {
      body({ offset, count: 4 });
      fn.emit(set(offset, addI32(get(offset), i32(16))));
    });
    fn.emit(repeatWhile(lessI32(get(offset), i32(whole * 16)), [inside]));
  }
  if (length % 4 > 0) body({ offset, count: length % 4 });
}

/**
 * The same with two groups at a time where there are two: a compiler that joins neighbouring vectors finds them side by
 * side, as long as `body` loads all of them before it stores any.
 */
export function eachPair(fn: FunctionBuilder, length: number, body: (quads: readonly Quad[]) => void): void {
  const offset = fn.local("i32");
  const pairs = Math.floor(length / 8);
  fn.emit(set(offset, i32(0)));
  const next = (bytes: number) => fn.emit(set(offset, addI32(get(offset), i32(bytes))));
  if (pairs > 0) {
    const inside = fn.captured(() => {
      const shared = new Map<number, Local<"i32">>();
      body([0, 16].map((shift) => ({ offset, shift, shared, count: 4 })));
      next(32);
    });
    fn.emit(repeatWhile(lessI32(get(offset), i32(pairs * 32)), [inside]));
  }
  const rest = length % 8;
  if (rest > 0) body([{ offset, count: Math.min(4, rest) }]);
  if (rest <= 4) return;
  next(16);
  body([{ offset, count: rest - 4 }]);
}

/** Loads four elements of a row with `stride` bytes from one to the next. Lanes beyond the row hold anything. */
export function loadQuad(fn: FunctionBuilder, pointer: Pointer, quad: Quad, stride: number, dtype: DType): Vector {
  if (dtype === "bool") return loadConditions(fn, pointer, quad, stride);
  if (stride === 0) return v128.loadSplat(get(pointer));
  if (stride === 4) return v128.load({ address: addressOf(fn, pointer, quad), memory: 0 }, quad.shift);
  const first = fn.keep(addI32(get(pointer), mulI32(elementOf(quad), i32(stride))));
  const lanes = fn.keep(v128.loadSplat(get(first)));
  for (let lane = 1; lane < quad.count; lane++)
    fn.emit(...stepTo(first, stride), set(lanes, v128.loadLane(get(first), get(lanes), lane)));
  return get(lanes);
}

/** Of its first element in a row of 32-bit elements, without the shift. */
function addressOf(fn: FunctionBuilder, pointer: Pointer, { offset, shared }: Quad): Code<"i32"> {
  const address = addI32(get(pointer), get(offset));
  if (shared === undefined) return address;
  const known = shared.get(pointer.index) ?? fn.keep(address);
  shared.set(pointer.index, known);
  return get(known);
}

/** The number of its first element in the row. */
function elementOf({ offset, shift = 0 }: Quad): Code<"i32"> {
  return shiftRightI32(shift === 0 ? get(offset) : addI32(get(offset), i32(shift)), i32(2));
}

/** Strides may be negative, which an instruction's own offset cannot be. */
function stepTo(pointer: Pointer, stride: number): Statement[] {
  return [set(pointer, addI32(get(pointer), i32(stride)))];
}

/** Bytes of 0 or 1 as lanes of zeros or ones. */
function loadConditions(fn: FunctionBuilder, pointer: Pointer, quad: Quad, stride: number): Vector {
  const isSet = (words: Vector) => v128.not(i32x4.equal(words, i32x4.splat(0)));
  if (stride === 0) return isSet(splatI32(load.byte(get(pointer))));
  const index = elementOf(quad);
  if (stride === 1 && quad.count === 4) return isSet(i32x4.ofBytes(v128.loadFirst(addI32(get(pointer), index))));
  const first = fn.keep(addI32(get(pointer), mulI32(index, i32(stride))));
  const lanes = fn.keep(i32x4.splat(0));
  for (let lane = 0; lane < quad.count; lane++) {
    fn.emit(set(lanes, v128.loadByteLane(get(first), get(lanes), 4 * lane)));
    if (lane + 1 < quad.count) fn.emit(...stepTo(first, stride));
  }
  return isSet(get(lanes));
}

export function storeQuad(
  fn: FunctionBuilder,
  pointer: Pointer,
  quad: Quad,
  stride: number,
  dtype: DType,
  value: Vector,
): void {
  if (dtype !== "bool" && stride === 4 && quad.count === 4) {
    fn.emit(v128.store({ address: addressOf(fn, pointer, quad), memory: 0 }, value, quad.shift));
    return;
  }
  const lanes = fn.keep(dtype === "bool" ? v128.and(value, i32x4.splat(1)) : value);
  const first = fn.keep(addI32(get(pointer), mulI32(elementOf(quad), i32(stride))));
  for (let lane = 0; lane < quad.count; lane++) {
    fn.emit(
      dtype === "bool"
        ? v128.storeByteLane(get(first), get(lanes), 4 * lane)
        : v128.storeLane(get(first), get(lanes), lane),
    );
    if (lane + 1 < quad.count) fn.emit(...stepTo(first, stride));
  }
}

/** `value` in the lanes that are in the row, `neutral` in the others. */
export function onlyInRow(value: Vector, quad: Quad, neutral: number): Vector {
  if (quad.count === 4) return value;
  const mask = [0, 1, 2, 3].map((lane) => (lane < quad.count ? 0xffffffff : 0)) as [number, number, number, number];
  return v128.select(value, f32x4.splat(neutral), v128.words(...mask));
}

/** Lanes 0 and 2, 1 and 3, then both: one tree everywhere. All lanes hold the result, as a splat of one number. */
export function acrossLanes(fn: FunctionBuilder, value: Vector, combine: (a: Vector, b: Vector) => Vector): Vector {
  const whole = fn.keep(value);
  const pairs = fn.keep(combine(get(whole), v128.shuffle(get(whole), get(whole), [2, 3, 0, 1])));
  return splatF32(f32x4.lane(combine(get(pairs), v128.shuffle(get(pairs), get(pairs), [1, 0, 3, 2])), 0));
}

export function strideBytes(strides: readonly number[], axis: number, dtype: DType): number {
  return (strides.at(axis) ?? 0) * elementBytes(dtype);
}
