// Copies operands of a matrix product into the order in which the tiles read them: A in panels of three rows, B in panels
// of as many columns as a tile has, both from any strides. What lies beyond the edge may hold anything, its products are thrown away.

import {
  addI32,
  andI32,
  atLeastI32,
  type Code,
  equalI32,
  get,
  i32,
  type Local,
  lessI32,
  load,
  mulI32,
  type Statement,
  set,
  smallerI32,
  store,
  subI32,
  v128,
  when,
  whileLoop,
} from "../kernels/wasm.ts";
import type { FunctionBuilder, ModuleBuilder } from "../kernels/wasm-module.ts";

export const tileRows = 3;

type Int = Local<"i32">;
type Vector = Local<"v128">;

const loadAt = (pointer: Int, offset = 0) => v128.load({ address: get(pointer), memory: 0 }, offset);
const storeAt = (pointer: Int, value: Code<"v128">, offset = 0) =>
  v128.store({ address: get(pointer), memory: 0 }, value, offset);
const advance = (pointer: Int, by: Code<"i32">): Statement => set(pointer, addI32(get(pointer), by));

/** While at least `step` of `count` are left after `done`. */
function steps(done: Int, count: Int, step: number, body: readonly Statement[]): Statement {
  return whileLoop(atLeastI32(subI32(get(count), get(done)), i32(step)), [...body, advance(done, i32(step))]);
}

/** packA(to, a, rowStride, columnStride, rows, depth), strides in bytes. Rows beyond the last repeat it. */
export function definePackA(module: ModuleBuilder, name: string): number {
  return module.define(name, (fn) => {
    const [to, a, rowStride, columnStride, rows, depth] = Array.from({ length: 6 }, () => fn.parameter("i32")) as Six;
    const [row, k] = [fn.local("i32"), fn.local("i32")];
    const sources = Array.from({ length: tileRows }, () => fn.local("i32"));
    const start = sources.map((source, i) => {
      const inside = smallerI32(addI32(get(row), i32(i)), subI32(get(rows), i32(1)));
      return set(source, addI32(get(a), mulI32(inside, get(rowStride))));
    });
    const single = [
      ...sources.map((source, i) => store.f32(get(to), load.f32(get(source)), 4 * i)),
      advance(to, i32(4 * tileRows)),
      ...sources.map((source) => advance(source, get(columnStride))),
    ];
    fn.emit(
      whileLoop(lessI32(get(row), get(rows)), [
        ...start,
        set(k, i32(0)),
        when(equalI32(get(columnStride), i32(4)), [steps(k, depth, 4, alongRows(fn, to, sources))]),
        when(andI32(equalI32(get(rowStride), i32(4)), atLeastI32(subI32(get(rows), get(row)), i32(tileRows))), [
          steps(k, depth, 1, acrossRows(to, sources[0] as Int, columnStride)),
        ]),
        steps(k, depth, 1, single),
        advance(row, i32(tileRows)),
      ]),
    );
    return undefined;
  });
}

type Six = [Int, Int, Int, Int, Int, Int];

/** Four columns of three rows that lie one after the other: twelve values in the order column, row. */
function alongRows(fn: FunctionBuilder, to: Int, sources: readonly Int[]): Statement[] {
  const [a, b, c] = sources.map(() => fn.local("v128")) as [Vector, Vector, Vector];
  const [ab, bc, ca] = [
    v128.shuffle(get(a), get(b), [0, 4, 1, 5]),
    v128.shuffle(get(b), get(c), [1, 5, 2, 6]),
    v128.shuffle(get(c), get(a), [2, 7, 3, 3]),
  ];
  return [
    ...[a, b, c].map((vector, i) => set(vector, loadAt(sources[i] as Int))),
    storeAt(to, v128.shuffle(ab, get(c), [0, 1, 4, 2])),
    storeAt(to, v128.shuffle(bc, get(a), [0, 1, 6, 2]), 16),
    storeAt(to, v128.shuffle(ca, get(b), [0, 1, 7, 2]), 32),
    advance(to, i32(48)),
    ...sources.map((source) => advance(source, i32(16))),
  ];
}

/** Rows that are neighbours in memory: one vector holds a column of them, and the next store covers what it has too much. */
function acrossRows(to: Int, source: Int, columnStride: Int): Statement[] {
  return [storeAt(to, loadAt(source)), advance(to, i32(4 * tileRows)), advance(source, get(columnStride))];
}

/** packB(to, b, rowStride, columnStride, depth, columns), strides in bytes; panels of so many vectors. */
export function definePackB(module: ModuleBuilder, vectors: number, name: string): number {
  return module.define(name, (fn) => {
    const [to, b, rowStride, columnStride, depth, columns] = Array.from({ length: 6 }, () =>
      fn.parameter("i32"),
    ) as Six;
    const [column, k, source] = [fn.local("i32"), fn.local("i32"), fn.local("i32")];
    const wholeRows = [
      set(source, addI32(get(b), mulI32(get(column), i32(4)))),
      set(k, i32(0)),
      steps(k, depth, 1, [
        ...Array.from({ length: vectors }, (_, v) => storeAt(to, loadAt(source, 16 * v), 16 * v)),
        advance(to, i32(16 * vectors)),
        advance(source, get(rowStride)),
      ]),
    ];
    const byColumns = [
      ...Array.from({ length: vectors }, (_, v) =>
        fourColumns(fn, { to, b, rowStride, columnStride, depth, columns, column, k }, v, vectors),
      ).flat(),
      advance(to, mulI32(get(depth), i32(16 * vectors))),
    ];
    fn.emit(
      whileLoop(lessI32(get(column), get(columns)), [
        when(equalI32(get(columnStride), i32(4)), wholeRows, byColumns),
        advance(column, i32(4 * vectors)),
      ]),
    );
    return undefined;
  });
}

type PackB = Record<"to" | "b" | "rowStride" | "columnStride" | "depth" | "columns" | "column" | "k", Int>;

/** The columns of one vector of the panel. */
function fourColumns(fn: FunctionBuilder, pack: PackB, vector: number, vectors: number): Statement[] {
  const { to, b, rowStride, columnStride, depth, columns, column, k } = pack;
  const target = fn.local("i32");
  const sources = [0, 1, 2, 3].map(() => fn.local("i32"));
  const rows = sources.map(() => fn.local("v128"));
  const bytes = 16 * vectors;
  const first = 4 * vector;
  const square = [
    ...rows.map((row, i) => set(row, loadAt(sources[i] as Int))),
    ...transposed(rows).map((row, i) => storeAt(target, row, i * bytes)),
    advance(target, i32(4 * bytes)),
    ...sources.map((source) => advance(source, i32(16))),
  ];
  const single = [
    ...sources.map((source, i) => store.f32(get(target), load.f32(get(source)), 4 * i)),
    advance(target, i32(bytes)),
    ...sources.map((source) => advance(source, get(rowStride))),
  ];
  return [
    ...sources.map((source, i) => {
      const inside = smallerI32(addI32(get(column), i32(first + i)), subI32(get(columns), i32(1)));
      return set(source, addI32(get(b), mulI32(inside, get(columnStride))));
    }),
    set(target, addI32(get(to), i32(4 * first))),
    set(k, i32(0)),
    when(equalI32(get(rowStride), i32(4)), [steps(k, depth, 4, square)]),
    steps(k, depth, 1, single),
  ];
}

/** The four columns of four rows. */
function transposed(rows: readonly Vector[]): Code<"v128">[] {
  const [a, b, c, d] = rows.map((row) => get(row)) as [Code<"v128">, Code<"v128">, Code<"v128">, Code<"v128">];
  const halves = ([low, high]: readonly [number, number]) => [
    v128.shuffle(a, b, [low, low + 4, high, high + 4]),
    v128.shuffle(c, d, [low, low + 4, high, high + 4]),
  ];
  return (
    [
      [0, 1],
      [2, 3],
    ] as const
  ).flatMap((pair) => {
    const [upper, lower] = halves(pair) as [Code<"v128">, Code<"v128">];
    return [v128.shuffle(upper, lower, [0, 1, 4, 5]), v128.shuffle(upper, lower, [2, 3, 6, 7])];
  });
}
