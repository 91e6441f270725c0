// From steps to one WebAssembly module: shapes, strides and places are part of the code; only where the arena, constants,
// inputs and outputs start is told at run time. A module is a pure function of its graph.

import { elementBytes, elementCount, type Tensor } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import {
  addI32,
  type Code,
  call,
  f32x4,
  type Global,
  get,
  getGlobal,
  i32,
  i32x4,
  setGlobal,
  trap,
  v128,
  when,
} from "../kernels/wasm.ts";
import { type FunctionBuilder, ModuleBuilder } from "../kernels/wasm-module.ts";
import type { CodeStep, KernelStep, Places } from "./context.ts";
import { defineGemm, type Gemm, type ProductKind, type TileVectors } from "./gemm.ts";
import { eachQuad, loadQuad, onlyInRow, storeQuad } from "./loops.ts";
import { type Buffer, lowerGraph } from "./lower.ts";
import { lifetimes, planArena } from "./plan.ts";
import { defineSingleRow } from "./single-row.ts";
import type { View } from "./views.ts";

/** Exported functions of the module, and kernels in between. */
export type Segment = { readonly kind: "code"; readonly name: string } | KernelStep;

export interface CompiledGraph {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly segments: readonly Segment[];
  readonly arenaBytes: number;
  readonly constantBytes: number;
  readonly constants: readonly { readonly offset: number; readonly tensor: Tensor }[];
  /** Where a view starts, for kernels: which base, and how many bytes behind it. */
  readonly origin: (view: View) => Origin;
  /** What the step of that number says about an index out of range. */
  readonly indexed: (step: number) => CodeStep["indexed"];
}

export interface Origin {
  /** The name of the global that holds the base. */
  readonly base: string;
  readonly offset: number;
}

const align = (bytes: number) => Math.ceil(bytes / 64) * 64;

/** The bases are globals of these names; inputs and outputs by their number. */
export const arenaBase = "arena";
export const constantsBase = "constants";
export const inputBase = (index: number) => `in${index}`;
export const outputBase = (index: number) => `out${index}`;
/** The step, counted from 1, and the index that ended a run. */
export const faultStep = "faultStep";
export const faultIndex = "faultIndex";

/** A module is the same function for any `tile`. */
export function compileGraph(graph: GraphModel, tile: TileVectors = 3): CompiledGraph {
  const { buffers, steps } = lowerGraph(graph);
  const lives = lifetimes(
    buffers.map(({ bytes }) => bytes),
    steps,
  );
  const arena = planArena(lives, (buffer) => buffers[buffer]?.kind === "arena");
  const constants = placeConstants(buffers, (buffer) => (lives[buffer]?.last ?? -1) >= 0);
  const origin = (view: View): Origin => {
    const buffer = buffers[view.buffer] as Buffer;
    const inside = view.offset * elementBytes(view.dtype);
    switch (buffer.kind) {
      case "arena":
        return { base: arenaBase, offset: (arena.offsets.get(view.buffer) ?? 0) + inside };
      case "constant":
        return { base: constantsBase, offset: (constants.offsets.get(view.buffer) ?? 0) + inside };
      case "input":
        return { base: inputBase(buffer.index), offset: inside };
      case "output":
        return { base: outputBase(buffer.index), offset: inside };
    }
  };
  const writer = new ModuleWriter(graph, origin, arena.bytes, tile);
  for (const [number, step] of steps.entries()) writer.step(step, number);
  writer.canonicalOutputs();
  const scratchBytes = Math.max(0, ...steps.map((step) => (step.kind === "code" ? (step.scratchBytes ?? 0) : 0)));
  return {
    ...writer.finish(),
    arenaBytes: align(arena.bytes) + scratchBytes,
    constantBytes: constants.bytes,
    constants: constants.placed,
    origin,
    indexed: (number) => {
      const step = steps[number];
      return step?.kind === "code" ? step.indexed : undefined;
    },
  };
}

function placeConstants(buffers: readonly Buffer[], isUsed: (buffer: number) => boolean) {
  const offsets = new Map<number, number>();
  const placed: { offset: number; tensor: Tensor }[] = [];
  let bytes = 0;
  for (const [number, buffer] of buffers.entries()) {
    if (buffer.kind !== "constant" || !isUsed(number)) continue;
    offsets.set(number, bytes);
    placed.push({ offset: bytes, tensor: buffer.tensor });
    bytes += align(buffer.bytes + 64);
  }
  return { offsets, placed, bytes };
}

/** NaN has many bit patterns, and which one an operation gives is the machine's choice: outputs hold this one. */
const canonicalNaN = 0x7fc00000;

class ModuleWriter {
  readonly #module = new ModuleBuilder(1);
  readonly #graph: GraphModel;
  readonly #origin: (view: View) => Origin;
  readonly #globals = new Map<string, Global<"i32">>();
  readonly #scratchOffset: number;
  readonly #tile: TileVectors;
  readonly #segments: Segment[] = [];
  #pending: number[] = [];
  readonly #gemms = new Map<ProductKind, Gemm>();

  constructor(graph: GraphModel, origin: (view: View) => Origin, arenaBytes: number, tile: TileVectors) {
    this.#tile = tile;
    this.#graph = graph;
    this.#origin = origin;
    this.#scratchOffset = align(arenaBytes);
    const names = [arenaBase, constantsBase, faultStep, faultIndex];
    for (const index of graph.inputs.keys()) names.push(inputBase(index));
    for (const index of graph.outputs.keys()) names.push(outputBase(index));
    for (const name of names) this.#globals.set(name, this.#module.global(name, "i32"));
  }

  #global(name: string): Global<"i32"> {
    return this.#globals.get(name) as Global<"i32">;
  }

  #address({ base, offset }: Origin): Code<"i32"> {
    const start = getGlobal(this.#global(base));
    return offset === 0 ? start : addI32(start, i32(offset));
  }

  step(step: CodeStep | KernelStep, number: number): void {
    if (step.kind === "kernel") {
      this.#flush();
      this.#segments.push(step);
      return;
    }
    // Helpers are functions of the module: they must exist before the function that calls them.
    if (step.scratchBytes !== undefined) this.#needGemm(step.products ?? "floats");
    const places: Places = {
      at: (view) => this.#address(this.#origin(view)),
      scratch: this.#address({ base: arenaBase, offset: this.#scratchOffset }),
      scratchFrom: (bytes) => this.#address({ base: arenaBase, offset: this.#scratchOffset + bytes }),
      gemm: (of) => this.#gemms.get(of) as Gemm,
      refuse: (fn, index) =>
        fn.emit(setGlobal(this.#global(faultIndex), index), setGlobal(this.#global(faultStep), i32(number + 1)), trap),
    };
    this.#define(`step${number}`, (fn) => step.emit(fn, places));
  }

  #needGemm(of: ProductKind): void {
    if (this.#gemms.has(of)) return;
    this.#gemms.set(of, of === "row" ? defineSingleRow(this.#module) : defineGemm(this.#module, this.#tile, of));
  }

  #define(name: string, emit: (fn: FunctionBuilder) => void): void {
    const index = this.#module.define(name, (fn) => {
      emit(fn);
      return undefined;
    });
    this.#pending.push(index);
  }

  /** Gives NaNs of all outputs their one pattern; nearly always a read and nothing more. */
  canonicalOutputs(): void {
    for (const [index, { dtype, shape }] of this.#graph.outputs.entries()) {
      if (dtype !== "float32" || elementCount(shape) === 0) continue;
      this.#define(`canonical${index}`, (fn) => {
        const start = fn.keep(getGlobal(this.#global(outputBase(index))));
        eachQuad(fn, elementCount(shape), (quad) => {
          const x = fn.keep(loadQuad(fn, start, quad, 4, "float32"));
          const inRow = fn.keep(onlyInRow(get(x), quad, 0));
          const isNumber = f32x4.equal(get(inRow), get(inRow));
          const repair = fn.captured(() =>
            storeQuad(fn, start, quad, 4, "float32", v128.select(get(x), i32x4.splat(canonicalNaN), isNumber)),
          );
          fn.emit(when(v128.anyTrue(v128.not(isNumber)), [repair]));
        });
      });
    }
  }

  #flush(): void {
    if (this.#pending.length === 0) return;
    const functions = this.#pending;
    this.#pending = [];
    const name = `run${this.#segments.length}`;
    this.#module.define(name, () => functions.map((index) => call(index)));
    this.#segments.push({ kind: "code", name });
  }

  finish(): { readonly bytes: Uint8Array<ArrayBuffer>; readonly segments: readonly Segment[] } {
    this.#flush();
    return { bytes: this.#module.bytes(), segments: this.#segments };
  }
}
