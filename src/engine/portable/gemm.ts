// C = base + alpha A B. Every element is a sum over k in blocks of 256: within a block products are added one by one from
// 0, and the blocks' sums are added to the base in order. One rounding per product and per sum, no fused multiply-add, so
// that the bits are those of a plain loop, whatever the tile, the worker or the other rows of the batch.

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
  load,
  mulI32,
  type Statement,
  set,
  smallerI32,
  splatF32,
  store,
  subI32,
  v128,
  when,
  whileLoop,
} from "../kernels/wasm.ts";
import type { FunctionBuilder, ModuleBuilder } from "../kernels/wasm-module.ts";
import { definePackA, definePackB, tileRows } from "./gemm-pack.ts";
import { defineIntegerTile } from "./integer-tile.ts";

/** Part of the bits: sums of longer blocks are rounded otherwise. */
export const blockDepth = 256;

/** Rows of A whose panels stay in a core's second-level cache, and columns of B that one packing covers. No bits depend on them. */
const blockRows = 192;
const blockColumns = 1536;

/**
 * How many vectors of four columns a tile has. Three keep all sums in the 15 registers that V8 uses; four are for a V8 that
 * joins vectors in pairs (wide-vectors.ts). The bits are the same.
 */
export type TileVectors = 3 | 4;

/** Multiply-adds between two checks of the loop's end: fewer cost a tenth of the speed. */
const unrolled = 4;

const packedABytes = 4 * (blockRows + tileRows) * blockDepth + 64;

/** Bytes of scratch that a product with so many columns needs. */
export function gemmScratchBytes(columns: number): number {
  return 256 + packedABytes + 4 * (Math.min(columns, blockColumns) + 16) * blockDepth + 64;
}

type Int = Local<"i32">;
const advance = (pointer: Int, by: Code<"i32">): Statement => set(pointer, addI32(get(pointer), by));

/**
 * tile(a, b, base, baseStride, c, cStride, depth, alpha): 3 rows of so many vectors from packed panels, the base added at
 * the end.
 */
function defineTile(module: ModuleBuilder, panel: TileVectors, vectors: number, hasBase: boolean): number {
  return module.define(`tile${4 * vectors}${hasBase ? "OntoBase" : ""}`, (fn) => {
    const pointers = Array.from({ length: 7 }, () => fn.parameter("i32"));
    const [a, b, base, baseStride, c, cStride, depth] = pointers as [Int, Int, Int, Int, Int, Int, Int];
    const alpha = fn.parameter("f32");
    const columns = Array.from({ length: vectors }, () => fn.local("v128"));
    const sums = Array.from({ length: tileRows }, () => columns.map(() => fn.local("v128")));
    const factor = fn.local("v128");
    const step = (k: number): Statement[] => [
      ...columns.map((vector, v) => set(vector, v128.load({ address: get(b), memory: 0 }, 16 * (k * panel + v)))),
      ...sums.flatMap((row, r) => [
        set(factor, v128.loadSplat(get(a), k * 4 * tileRows + 4 * r)),
        ...row.map((sum, v) => set(sum, f32x4.add(get(sum), f32x4.mul(get(factor), get(columns[v] as Local<"v128">))))),
      ]),
    ];
    const next = (count: number): Statement[] => [
      advance(a, i32(4 * tileRows * count)),
      advance(b, i32(16 * panel * count)),
      set(depth, subI32(get(depth), i32(count))),
    ];
    fn.emit(
      whileLoop(atLeastI32(get(depth), i32(unrolled)), [
        ...Array.from({ length: unrolled }, (_, k) => step(k)).flat(),
        ...next(unrolled),
      ]),
      whileLoop(get(depth), [...step(0), ...next(1)]),
      set(factor, splatF32(get(alpha))),
    );
    for (const row of sums) {
      // All loads before the first store: else a compiler that joins neighbours would have to prove them apart.
      const values = row.map((sum, v) => {
        const scaled = f32x4.mul(get(sum), get(factor));
        const value = hasBase ? f32x4.add(v128.load({ address: get(base), memory: 0 }, 16 * v), scaled) : scaled;
        return fn.keep(value);
      });
      fn.emit(...values.map((value, v) => v128.store({ address: get(c), memory: 0 }, get(value), 16 * v)));
      fn.emit(advance(c, get(cStride)), advance(base, get(baseStride)));
    }
    return undefined;
  });
}

/** copyTile(to, toStride, from, fromStride, rows, columns) */
function defineCopyTile(module: ModuleBuilder, name: string): number {
  return module.define(name, (fn) => {
    const [to, toStride, from, fromStride, rows, columns] = Array.from({ length: 6 }, () => fn.parameter("i32")) as [
      Int,
      Int,
      Int,
      Int,
      Int,
      Int,
    ];
    const [row, at] = [fn.local("i32"), fn.local("i32")];
    fn.emit(
      whileLoop(lessI32(get(row), get(rows)), [
        set(at, i32(0)),
        whileLoop(lessI32(get(at), mulI32(get(columns), i32(4))), [
          store.f32(addI32(get(to), get(at)), load.f32(addI32(get(from), get(at)))),
          advance(at, i32(4)),
        ]),
        advance(to, get(toStride)),
        advance(from, get(fromStride)),
        advance(row, i32(1)),
      ]),
    );
    return undefined;
  });
}

/** In the order in which all products take them; alpha follows. Strides are bytes. */
export const gemmParameters = [
  ...["a", "aRow", "aColumn", "b", "bRow", "bColumn", "base", "baseRow", "c", "cRow", "rows", "columns", "depth"],
  ...["hasBase", "scratch"],
] as const;
const localNames = [
  ...["column0", "columnCount", "k0", "kCount", "row0", "rowCount", "j", "r", "onBase", "from", "fromRow"],
  ...["tile", "packedA", "packedB", "panelA", "panelB", "target", "source", "tileHeight", "tileWidth"],
] as const;
type Names = Record<(typeof gemmParameters)[number] | (typeof localNames)[number], Int>;

/** What a product is of: floats, whole numbers whose sums are exact, or floats of a single row. */
export type ProductKind = "floats" | "integers" | "row";

export interface Gemm {
  /** The function's number; its arguments are `gemmParameters`, then alpha. C and base have unit columns. */
  readonly multiply: number;
}

/** Of whole numbers: integer-tile.ts says what is other. A module may have both. */
export function defineGemm(module: ModuleBuilder, vectors: TileVectors, of: "floats" | "integers" = "floats"): Gemm {
  const tile = of === "floats" ? defineTile : defineIntegerTile;
  const name = (own: string) => (of === "floats" ? own : `${own}OfIntegers`);
  const functions = {
    packA: definePackA(module, name("packA")),
    packB: definePackB(module, vectors, name("packB")),
    copyTile: defineCopyTile(module, name("copyTile")),
    tiles: Array.from({ length: vectors }, (_, narrower) => ({
      plain: tile(module, vectors, narrower + 1, false),
      ontoBase: tile(module, vectors, narrower + 1, true),
    })),
  };
  const multiply = module.define(name("gemm"), (fn) => {
    const parameters = gemmParameters.map((name) => [name, fn.parameter("i32")] as const);
    const alpha = fn.parameter("f32");
    const locals = localNames.map((name) => [name, fn.local("i32")] as const);
    emitBlocks(fn, Object.fromEntries([...parameters, ...locals]) as Names, alpha, functions);
    return undefined;
  });
  return { multiply };
}

interface Functions extends Record<"packA" | "packB" | "copyTile", number> {
  /** Of one vector, of two, up to a whole tile. */
  readonly tiles: readonly { readonly plain: number; readonly ontoBase: number }[];
}

function emitBlocks(fn: FunctionBuilder, n: Names, alpha: Local<"f32">, functions: Functions): void {
  const times = (count: Int, stride: Int) => mulI32(get(count), get(stride));
  const rowBlock = [
    set(n.rowCount, smallerI32(i32(blockRows), subI32(get(n.rows), get(n.row0)))),
    call(
      functions.packA,
      get(n.packedA),
      addI32(addI32(get(n.a), times(n.row0, n.aRow)), times(n.k0, n.aColumn)),
      ...[n.aRow, n.aColumn, n.rowCount, n.kCount].map((each) => get(each)),
    ),
    set(n.j, i32(0)),
    set(n.panelB, get(n.packedB)),
    whileLoop(lessI32(get(n.j), get(n.columnCount)), [
      set(n.r, i32(0)),
      set(n.panelA, get(n.packedA)),
      whileLoop(lessI32(get(n.r), get(n.rowCount)), oneTile(n, alpha, functions)),
      advance(n.panelB, mulI32(get(n.kCount), i32(16 * functions.tiles.length))),
      advance(n.j, i32(4 * functions.tiles.length)),
    ]),
    advance(n.row0, i32(blockRows)),
  ];
  const depthBlock = [
    set(n.kCount, smallerI32(i32(blockDepth), subI32(get(n.depth), get(n.k0)))),
    call(
      functions.packB,
      get(n.packedB),
      addI32(addI32(get(n.b), times(n.k0, n.bRow)), times(n.column0, n.bColumn)),
      ...[n.bRow, n.bColumn, n.kCount, n.columnCount].map((each) => get(each)),
    ),
    set(n.row0, i32(0)),
    whileLoop(lessI32(get(n.row0), get(n.rows)), rowBlock),
    // The following blocks are added to what this one wrote.
    set(n.onBase, i32(1)),
    set(n.from, get(n.c)),
    set(n.fromRow, get(n.cRow)),
    advance(n.k0, i32(blockDepth)),
  ];
  fn.emit(
    set(n.tile, get(n.scratch)),
    set(n.packedA, addI32(get(n.scratch), i32(256))),
    set(n.packedB, addI32(get(n.packedA), i32(packedABytes))),
    whileLoop(lessI32(get(n.column0), get(n.columns)), [
      set(n.columnCount, smallerI32(i32(blockColumns), subI32(get(n.columns), get(n.column0)))),
      set(n.onBase, get(n.hasBase)),
      set(n.from, get(n.base)),
      set(n.fromRow, get(n.baseRow)),
      set(n.k0, i32(0)),
      whileLoop(lessI32(get(n.k0), get(n.depth)), depthBlock),
      advance(n.column0, i32(blockColumns)),
    ]),
  );
}

/** One tile: in place if its rows are whole and its columns are whole vectors, else by way of scratch. */
function oneTile(n: Names, alpha: Local<"f32">, functions: Functions): Statement[] {
  const place = (start: Int, stride: Int) => {
    const row = mulI32(addI32(get(n.row0), get(n.r)), get(stride));
    return addI32(addI32(get(start), row), mulI32(addI32(get(n.column0), get(n.j)), i32(4)));
  };
  type Target = readonly [base: Code<"i32">, baseRow: Code<"i32">, c: Code<"i32">, cRow: Code<"i32">];
  const run = (vectors: number, target: Target) => {
    const given = [get(n.panelA), get(n.panelB), ...target, get(n.kCount), get(alpha)];
    const { plain, ontoBase } = functions.tiles[vectors - 1] as Functions["tiles"][number];
    return when(get(n.onBase), [call(ontoBase, ...given)], [call(plain, ...given)]);
  };
  const inPlace: Target = [get(n.source), get(n.fromRow), get(n.target), get(n.cRow)];
  const whole = functions.tiles.length;
  const [tile, tileRow] = [get(n.tile), i32(16 * whole)];
  const size = [get(n.tileHeight), get(n.tileWidth)];
  const byScratch = [
    when(get(n.onBase), [call(functions.copyTile, tile, tileRow, get(n.source), get(n.fromRow), ...size)]),
    run(whole, [tile, tileRow, tile, tileRow]),
    call(functions.copyTile, get(n.target), get(n.cRow), tile, tileRow, ...size),
  ];
  const direct = functions.tiles.reduce<readonly Statement[]>((otherwise, _, narrower) => {
    const isSo = equalI32(get(n.tileWidth), i32(4 * (narrower + 1)));
    return [when(isSo, [run(narrower + 1, inPlace)], otherwise)];
  }, byScratch);
  return [
    set(n.target, place(n.c, n.cRow)),
    set(n.source, place(n.from, n.fromRow)),
    set(n.tileHeight, smallerI32(i32(tileRows), subI32(get(n.rowCount), get(n.r)))),
    set(n.tileWidth, smallerI32(i32(4 * whole), subI32(get(n.columnCount), get(n.j)))),
    when(equalI32(get(n.tileHeight), i32(tileRows)), direct, byScratch),
    advance(n.panelA, mulI32(get(n.kCount), i32(4 * tileRows))),
    advance(n.r, i32(tileRows)),
  ];
}

export interface Operand {
  readonly pointer: Code<"i32">;
  readonly rowStride: number;
  readonly columnStride: number;
}

export interface ProductCall {
  readonly a: Operand;
  readonly b: Operand;
  /** Unit columns. */
  readonly base?: Omit<Operand, "columnStride">;
  readonly c: Omit<Operand, "columnStride">;
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly alpha: Code<"f32">;
  readonly scratch: Code<"i32">;
}

export function callGemm({ multiply }: Gemm, product: ProductCall): Statement {
  const { a, b, base, c, rows, columns, depth, alpha, scratch } = product;
  const matrices = [a, b].flatMap((each) => [each.pointer, i32(each.rowStride), i32(each.columnStride)]);
  const targets = [base ?? { pointer: i32(0), rowStride: 0 }, c].flatMap((each) => [each.pointer, i32(each.rowStride)]);
  const sizes = [rows, columns, depth, base === undefined ? 0 : 1].map((each) => i32(each));
  return call(multiply, ...matrices, ...targets, ...sizes, scratch, alpha);
}
