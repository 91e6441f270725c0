// Turns queries or keys by their positions, in place: the first elements of each head in pairs, half of them apart. Single
// products, sums and differences, so that a row's bits are those of the same operators in a graph.

import type { UnitRope } from "../../graph/unit.ts";
import { addF32, addI32, f32x4, get, i32, load, mulF32, mulI32, set, store, subF32 } from "../kernels/wasm.ts";
import type { FunctionBuilder } from "../kernels/wasm-module.ts";
import { advance, counted, type Int, loadAt, storeAt } from "./loops.ts";

export interface Rotation {
  /** Address of the first row's first head. */
  readonly first: Int;
  readonly heads: number;
  readonly headDim: number;
  /** Elements from row to row. */
  readonly stride: number;
  readonly rows: Int;
  /** Of the first row. */
  readonly position: Int;
  /** Addresses of the tables. */
  readonly cos: Int;
  readonly sin: Int;
  readonly rope: UnitRope;
}

export function emitRotation(fn: FunctionBuilder, rotation: Rotation): void {
  const { first, heads, headDim, stride, rows, position, rope } = rotation;
  const half = rope.cos.shape[1] as number;
  const [row, head, at, cos, sin] = Array.from({ length: 5 }, () => fn.local("i32")) as [Int, Int, Int, Int, Int];
  const turned = fn.captured(() => emitHead(fn, half, { at, cos, sin }));
  const rowOf = (table: Int) => addI32(get(table), mulI32(addI32(get(position), get(row)), i32(4 * half)));
  fn.emit(
    set(at, get(first)),
    ...counted(row, i32(0), get(rows), [
      set(cos, rowOf(rotation.cos)),
      set(sin, rowOf(rotation.sin)),
      ...counted(head, i32(0), i32(heads), [turned, advance(at, i32(4 * headDim))]),
      advance(at, i32(4 * (stride - heads * headDim))),
    ]),
  );
}

function emitHead(fn: FunctionBuilder, half: number, { at, cos, sin }: { at: Int; cos: Int; sin: Int }): void {
  const vectors = Math.floor(half / 4);
  for (let v = 0; v < vectors; v++) {
    const [a, b] = [fn.keep(loadAt(at, 16 * v)), fn.keep(loadAt(at, 4 * half + 16 * v))];
    const [c, s] = [fn.keep(loadAt(cos, 16 * v)), fn.keep(loadAt(sin, 16 * v))];
    const product = (x: typeof a, y: typeof a) => f32x4.mul(get(x), get(y));
    fn.emit(
      storeAt(at, f32x4.sub(product(a, c), product(b, s)), 16 * v),
      storeAt(at, f32x4.add(product(b, c), product(a, s)), 4 * half + 16 * v),
    );
  }
  for (let i = 4 * vectors; i < half; i++) {
    const [a, b] = [fn.keep(load.f32(get(at), 4 * i)), fn.keep(load.f32(get(at), 4 * (half + i)))];
    const [c, s] = [load.f32(get(cos), 4 * i), load.f32(get(sin), 4 * i)];
    fn.emit(
      store.f32(get(at), subF32(mulF32(get(a), c), mulF32(get(b), s)), 4 * i),
      store.f32(get(at), addF32(mulF32(get(b), c), mulF32(get(a), s)), 4 * (half + i)),
    );
  }
}
