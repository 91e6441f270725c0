// C = base + alpha A B where A is one row, as when a served model makes one token: every weight is read once and where it lies, instead of
// being packed for tiles of which a single row would use a third. The sums are those of gemm.ts, in its order: the bits are the same.

import {
  addI32,
  atLeastI32,
  type Code,
  call,
  equalI32,
  f32x4,
  get,
  i32,
  type Local,
  lessI32,
  mulI32,
  type Statement,
  set,
  smallerI32,
  splatF32,
  subI32,
  v128,
  when,
  whileLoop,
} from "../kernels/wasm.ts";
import type { FunctionBuilder, ModuleBuilder } from "../kernels/wasm-module.ts";
import { blockDepth, type Gemm, gemmParameters } from "./gemm.ts";

/** Columns whose sums stay in a core's first-level cache. No bits depend on it. */
const blockColumns = 2048;
/** Rows of B that are added to the sums at once. */
const rowsAtOnce = 8;

/** So many rows one after the other still cost less than a packing that as few rows use; none where neither rows nor columns of B lie whole. */
export function singleRowsMax(strides: readonly number[]): number {
  const [row, column] = strides.slice(-2);
  if (column === 4) return 4;
  return row === 4 ? 2 : 0;
}

export const singleRowScratchBytes = 4 * blockColumns + 64;

type Int = Local<"i32">;
type Vector = Local<"v128">;
type Names = Record<(typeof gemmParameters)[number] | "onBase" | "from" | "k0" | "kCount" | "at", Int>;

const advance = (pointer: Int, by: Code<"i32">): Statement => set(pointer, addI32(get(pointer), by));
const loadAt = (pointer: Int, offset = 0) => v128.load({ address: get(pointer), memory: 0 }, offset);
const left = (done: Int, count: Int) => subI32(get(count), get(done));

/** Elements that lie together: two vectors, one, or a single element. */
interface Width {
  readonly bytes: number;
  readonly parts: readonly number[];
  readonly load: (pointer: Int, offset: number) => Code<"v128">;
  readonly store: (pointer: Int, value: Code<"v128">, offset: number) => Statement;
}
const vectors = {
  load: loadAt,
  store: (pointer: Int, value: Code<"v128">, offset: number) =>
    v128.store({ address: get(pointer), memory: 0 }, value, offset),
};
const widths: readonly Width[] = [
  { ...vectors, bytes: 32, parts: [0, 16] },
  { ...vectors, bytes: 16, parts: [0] },
  {
    ...{ bytes: 4, parts: [0] },
    load: (pointer, offset) => v128.loadFirst(get(pointer), offset),
    store: (pointer, value, offset) => v128.storeLane(get(pointer), value, 0, offset),
  },
];

/** Its arguments are those of gemm.ts. B has neighbours along its rows or along its columns; C and base have unit columns. */
export function defineSingleRow(module: ModuleBuilder): Gemm {
  const named = (fn: FunctionBuilder) => {
    const parameters = gemmParameters.map((name) => [name, fn.parameter("i32")] as const);
    const alpha = fn.parameter("f32");
    const locals = ["onBase", "from", "k0", "kCount", "at"].map((name) => [name, fn.local("i32")] as const);
    return { n: Object.fromEntries([...parameters, ...locals]) as Names, alpha };
  };
  const along = module.define("rowAlong", (fn) => {
    const { n, alpha } = named(fn);
    emitAlong(fn, n, alpha);
    return undefined;
  });
  const across = module.define("rowAcross", (fn) => {
    const { n, alpha } = named(fn);
    emitAcross(fn, n, alpha);
    return undefined;
  });
  const multiply = module.define("row", (fn) => {
    const { n, alpha } = named(fn);
    const given = [...gemmParameters.map((name) => get(n[name])), get(alpha)];
    fn.emit(when(equalI32(get(n.bColumn), i32(4)), [call(along, ...given)], [call(across, ...given)]));
    return undefined;
  });
  return { multiply };
}

/** Rows of B are added to sums of many columns, a few rows at a time. */
function emitAlong(fn: FunctionBuilder, n: Names, alpha: Local<"f32">): void {
  const [column0, count, end, k] = Array.from({ length: 4 }, () => fn.local("i32")) as [Int, Int, Int, Int];
  const [a, b, c, sums] = Array.from({ length: 4 }, () => fn.local("i32")) as [Int, Int, Int, Int];
  const factors = Array.from({ length: rowsAtOnce }, () => fn.local("v128"));
  const rows = Array.from({ length: rowsAtOnce }, () => fn.local("i32"));
  /** From `at` on, as far as each width reaches. */
  const sweep = (body: (width: Width) => readonly Statement[]) => [
    set(n.at, i32(0)),
    ...widths.map((width) =>
      whileLoop(atLeastI32(left(n.at, end), i32(width.bytes)), [...body(width), advance(n.at, i32(width.bytes))]),
    ),
  ];
  const [target, source] = [fn.local("i32"), fn.local("i32")];
  const added = (used: number) => [
    ...factors.slice(0, used).flatMap((factor) => [set(factor, v128.loadSplat(get(a))), advance(a, get(n.aColumn))]),
    ...rows.slice(0, used).flatMap((row) => [set(row, get(b)), advance(b, get(n.bRow))]),
    ...sweep(({ parts, load, store, bytes }) => [
      set(target, addI32(get(sums), get(n.at))),
      ...parts.map((part) => {
        const products = rows.slice(0, used).map((row, i) => f32x4.mul(get(factors[i] as Vector), load(row, part)));
        const sum = products.reduce((before, product) => f32x4.add(before, product), load(target, part));
        return store(target, sum, part);
      }),
      ...rows.slice(0, used).map((row) => advance(row, i32(bytes))),
    ]),
    advance(k, i32(used)),
  ];
  const cleared = sweep(({ parts, store }) => [
    set(target, addI32(get(sums), get(n.at))),
    ...parts.map((part) => store(target, f32x4.splat(0), part)),
  ]);
  const scale = fn.keep(splatF32(get(alpha)));
  const finished = (onto: boolean) =>
    sweep(({ parts, load, store }) => [
      set(source, addI32(get(sums), get(n.at))),
      set(target, addI32(get(c), get(n.at))),
      ...(onto ? [set(k, addI32(get(n.from), get(n.at)))] : []),
      ...parts.map((part) => {
        const scaled = f32x4.mul(load(source, part), get(scale));
        return store(target, onto ? f32x4.add(load(k, part), scaled) : scaled, part);
      }),
    ]);
  fn.emit(
    set(sums, get(n.scratch)),
    whileLoop(lessI32(get(column0), get(n.columns)), [
      set(count, smallerI32(i32(blockColumns), left(column0, n.columns))),
      set(end, mulI32(get(count), i32(4))),
      set(c, addI32(get(n.c), mulI32(get(column0), i32(4)))),
      set(n.onBase, get(n.hasBase)),
      set(n.from, addI32(get(n.base), mulI32(get(column0), i32(4)))),
      set(n.k0, i32(0)),
      set(a, get(n.a)),
      set(b, addI32(get(n.b), mulI32(get(column0), i32(4)))),
      whileLoop(lessI32(get(n.k0), get(n.depth)), [
        set(n.kCount, smallerI32(i32(blockDepth), left(n.k0, n.depth))),
        ...cleared,
        set(k, i32(0)),
        whileLoop(atLeastI32(left(k, n.kCount), i32(rowsAtOnce)), added(rowsAtOnce)),
        whileLoop(lessI32(get(k), get(n.kCount)), added(1)),
        when(get(n.onBase), finished(true), finished(false)),
        // The following blocks are added to what this one wrote.
        ...[set(n.onBase, i32(1)), set(n.from, get(c)), advance(n.k0, i32(blockDepth))],
      ]),
      advance(column0, i32(blockColumns)),
    ]),
  );
}

/** Columns of B lie whole: four of them at a time are turned, so that each has a lane. */
function emitAcross(fn: FunctionBuilder, n: Names, alpha: Local<"f32">): void {
  const scale = fn.keep(splatF32(get(alpha)));
  const [column, a, k] = [fn.local("i32"), fn.local("i32"), fn.local("i32")];
  const columns = Array.from({ length: 8 }, () => fn.local("i32"));
  const totals = [fn.local("v128"), fn.local("v128")];
  const sums = [fn.local("v128"), fn.local("v128")];
  const factors = Array.from({ length: 4 }, () => fn.local("v128"));
  /** `groups` of four columns, or one column that is in all lanes of one group. */
  const some = (groups: number, apart: boolean): Statement[] => {
    const used = columns.slice(0, 4 * groups);
    const turned = fn.captured(() => {
      for (let group = 0; group < groups; group++) {
        const lanes = transposed(fn, used.slice(4 * group, 4 * group + 4));
        for (const [i, lane] of lanes.entries())
          fn.emit(plus(sums[group] as Vector, f32x4.mul(get(factors[i] as Vector), get(lane))));
      }
    });
    const single = (group: number) =>
      used
        .slice(4 * group + 1, 4 * group + 4)
        .reduce(
          (vector, pointer, i) => v128.loadLane(get(pointer), vector, i + 1),
          v128.loadFirst(get(used[4 * group] as Int)),
        );
    const next = (elements: number) => [
      ...used.map((pointer) => advance(pointer, i32(4 * elements))),
      advance(k, i32(elements)),
    ];
    const place = (start: Int) => addI32(get(start), mulI32(get(column), i32(4)));
    const begun = (group: number) =>
      apart ? v128.load({ address: place(n.base), memory: 0 }, 16 * group) : v128.loadFirst(place(n.base));
    const written = (group: number) =>
      apart
        ? v128.store({ address: place(n.c), memory: 0 }, get(totals[group] as Vector), 16 * group)
        : v128.storeLane(place(n.c), get(totals[group] as Vector), 0);
    const all = Array.from({ length: groups }, (_, group) => group);
    return [
      ...used.map((pointer, i) =>
        set(pointer, addI32(get(n.b), mulI32(addI32(get(column), i32(apart ? i : 0)), get(n.bColumn)))),
      ),
      ...[set(a, get(n.a)), set(n.k0, i32(0)), set(n.onBase, get(n.hasBase))],
      when(
        get(n.hasBase),
        all.map((group) => set(totals[group] as Vector, begun(group))),
      ),
      whileLoop(lessI32(get(n.k0), get(n.depth)), [
        set(n.kCount, smallerI32(i32(blockDepth), left(n.k0, n.depth))),
        set(k, i32(0)),
        ...all.map((group) => set(sums[group] as Vector, f32x4.splat(0))),
        whileLoop(atLeastI32(left(k, n.kCount), i32(4)), [
          ...factors.flatMap((factor) => [set(factor, v128.loadSplat(get(a))), advance(a, get(n.aColumn))]),
          turned,
          ...next(4),
        ]),
        whileLoop(lessI32(get(k), get(n.kCount)), [
          set(factors[0] as Vector, v128.loadSplat(get(a))),
          advance(a, get(n.aColumn)),
          ...all.map((group) => plus(sums[group] as Vector, f32x4.mul(get(factors[0] as Vector), single(group)))),
          ...next(1),
        ]),
        ...all.map((group) => set(sums[group] as Vector, f32x4.mul(get(sums[group] as Vector), get(scale)))),
        when(
          get(n.onBase),
          all.map((group) => plus(totals[group] as Vector, get(sums[group] as Vector))),
          all.map((group) => set(totals[group] as Vector, get(sums[group] as Vector))),
        ),
        ...[set(n.onBase, i32(1)), advance(n.k0, i32(blockDepth))],
      ]),
      ...all.map(written),
      advance(column, i32(apart ? 4 * groups : 1)),
    ];
  };
  fn.emit(
    whileLoop(atLeastI32(left(column, n.columns), i32(8)), some(2, true)),
    whileLoop(atLeastI32(left(column, n.columns), i32(4)), some(1, true)),
    whileLoop(lessI32(get(column), get(n.columns)), some(1, false)),
  );
}

const plus = (sum: Vector, value: Code<"v128">): Statement => set(sum, f32x4.add(get(sum), value));

/** Four elements of four columns: the first of each, the second of each, .. */
function transposed(fn: FunctionBuilder, pointers: readonly Int[]): Vector[] {
  const [p, q, r, s] = pointers.map((pointer) => fn.keep(loadAt(pointer))) as [Vector, Vector, Vector, Vector];
  const low = [
    fn.keep(v128.shuffle(get(p), get(q), [0, 4, 1, 5])),
    fn.keep(v128.shuffle(get(r), get(s), [0, 4, 1, 5])),
  ];
  const high = [
    fn.keep(v128.shuffle(get(p), get(q), [2, 6, 3, 7])),
    fn.keep(v128.shuffle(get(r), get(s), [2, 6, 3, 7])),
  ];
  return [low, high].flatMap((pair) => {
    const [x, y] = pair.map((each) => get(each)) as [Code<"v128">, Code<"v128">];
    return [fn.keep(v128.shuffle(x, y, [0, 1, 4, 5])), fn.keep(v128.shuffle(x, y, [2, 3, 6, 7]))];
  });
}
