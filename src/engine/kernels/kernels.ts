// Runs the SIMD kernels on memory that workers share. Operands in wasm memories are worked on where they are; others,
// and the last few elements, pass through a small scratch memory. Same bits either way.

import { assert } from "../../core/assert.ts";
import { sha256 } from "../../core/hash.ts";
import { chanceThreshold } from "../../core/numbers/random.ts";
import { elementCount } from "../../core/tensor.ts";
import type { KernelCall, KernelDraw, KernelOperand, KernelResult } from "../engine.ts";
import { digestMultiplier, groupElements, kernelModuleBytes } from "./kernel-module.ts";
import type { Memories } from "./kernel-parts.ts";

/** An operand where the kernel runs: its elements and, if it lies in one, the wasm memory behind them. */
export interface KernelView {
  readonly view: Float32Array;
  readonly memory?: WebAssembly.Memory;
}

/** A call taken apart: what to run, on which operands, with which numbers. */
export interface LoweredCall {
  readonly kind: KernelCall["kind"];
  /** The exported function. */
  readonly name: string;
  readonly operands: readonly { readonly operand: KernelOperand; readonly writes: boolean }[];
  readonly numbers: readonly number[];
  /** Only of draws: the number of the first element among the key's. */
  readonly from?: number;
}

const reads = (operand: KernelOperand) => ({ operand, writes: false });
const writes = (operand: KernelOperand) => ({ operand, writes: true });

/** Constants are computed here, in doubles, once; kernels round them to float32 once. */
export function lowerCall(call: KernelCall): LoweredCall {
  const { kind } = call;
  switch (kind) {
    case "adam": {
      const decoupled = call.decoupled ?? true;
      const numbers = [
        call.beta1,
        1 - call.beta1,
        call.beta2,
        1 - call.beta2,
        call.rate / call.correction1,
        1 / Math.sqrt(call.correction2),
        call.epsilon,
        decoupled ? 0 : call.weightDecay,
        decoupled ? 1 - call.rate * call.weightDecay : 1,
        call.gradientScale,
      ];
      const operands = [writes(call.weights), reads(call.gradient), writes(call.first), writes(call.second)];
      return { kind, name: "adam", operands, numbers };
    }
    case "sgd": {
      const numbers = [call.rate, call.momentum, call.weightDecay, call.gradientScale];
      const operands = [writes(call.weights), reads(call.gradient)];
      if (call.momentum === 0) return { kind, name: "sgd", operands: [...operands, reads(call.gradient)], numbers };
      assert(call.velocity !== undefined, "sgd with momentum has a velocity buffer");
      return { kind, name: "sgdMomentum", operands: [...operands, writes(call.velocity)], numbers };
    }
    case "accumulate":
      return { kind, name: kind, operands: [writes(call.into), reads(call.add)], numbers: [] };
    case "copy":
      return { kind, name: kind, operands: [writes(call.into), reads(call.of)], numbers: [] };
    case "round": {
      const name = call.to === "float16" ? "roundFloat16" : "roundBfloat16";
      return { kind, name, operands: [writes(call.into), reads(call.of)], numbers: [] };
    }
    case "sumOfSquares":
    case "digest":
    case "finite":
      return { kind, name: kind, operands: [reads(call.of)], numbers: [] };
    case "fill":
      return { kind, name: kind, operands: [writes(call.into)], numbers: [call.value] };
    case "chance": {
      const numbers = [...call.key, chanceThreshold(call.rate), call.keepValue, call.dropValue];
      return { kind, name: kind, operands: [writes(call.into)], numbers, from: 0 };
    }
    case "uniform":
      return drawing(call, [...call.key, call.low, call.high - call.low]);
    case "normal":
      return drawing(call, [...call.key, call.deviation]);
  }
}

function drawing({ kind, into, from = 0 }: KernelDraw & Pick<KernelCall, "kind">, numbers: number[]): LoweredCall {
  assert(Number.isInteger(from / 4) && from >= 0, `draws start at a whole block of four, not at ${from}`);
  return { kind, name: kind, operands: [writes(into)], numbers, from };
}

/** The elements of an operand in this thread. */
export function viewOf(operand: KernelOperand): Float32Array {
  if ("memory" in operand) {
    const { memory, start, length } = operand;
    assert((start + length) * 4 <= memory.bytes, `elements ${start} to ${start + length} lie in ${memory.bytes} bytes`);
    return new Float32Array(memory.buffer, memory.offset + start * 4, length);
  }
  assert(operand.data instanceof Float32Array, `a kernel works on float32, not on ${operand.dtype}`);
  assert(operand.data.length === elementCount(operand.shape), "a tensor's data fill its shape");
  return operand.data;
}

/** In elements; the operands of a call are equally long. */
export function lengthOf(call: LoweredCall): number {
  const operand = call.operands[0]?.operand as KernelOperand;
  return "memory" in operand ? operand.length : elementCount(operand.shape);
}

export function viewsOf(call: LoweredCall): Float32Array[] {
  return call.operands.map(({ operand }) => viewOf(operand));
}

type Kernel = (...numbers: number[]) => void;

interface Instance {
  readonly call: (name: string, numbers: readonly number[]) => void;
  readonly global: (name: string) => WebAssembly.Global;
}

const pageBytes = 65536;
/** Elements of one operand in scratch memory: four operands stay within a core's second-level cache. */
const scratchElements = 16384;
const scratchPages = (4 * scratchElements * 4) / pageBytes;
const digestLanes = [0, 1, 2, 3, 4, 5, 6, 7].map((lane) => `digest${lane}`);
const sumLanes = [0, 1, 2, 3].map((lane) => `sum${lane}`);
const laneMask = 0xffff_ffff_ffff_ffffn;

/** Compiled once per thread, by which operands share a memory. */
const compiled = new Map<string, WebAssembly.Module>();
let takesSeveralMemories: boolean | undefined;

function moduleFor(memories: Memories): WebAssembly.Module {
  const key = memories.join();
  const module = compiled.get(key) ?? new WebAssembly.Module(kernelModuleBytes(memories));
  compiled.set(key, module);
  return module;
}

/** Where several memories in one module are not supported, operands apart are staged. */
function runsApart(): boolean {
  takesSeveralMemories ??= WebAssembly.validate(kernelModuleBytes([0, 1]));
  return takesSeveralMemories;
}

function instantiate(memories: readonly WebAssembly.Memory[]): Instance {
  const distinct = [...new Set(memories)];
  const env = Object.fromEntries(distinct.map((memory, i) => [`memory${i}`, memory]));
  const module = moduleFor(memories.map((memory) => distinct.indexOf(memory)));
  const { exports } = new WebAssembly.Instance(module, { env });
  return {
    call: (name, numbers) => (exports[name] as Kernel)(...numbers),
    global: (name) => exports[name] as WebAssembly.Global,
  };
}

/** Memory in whole pages, never grown, zeroed. */
export function sharedMemory(bytes: number): WebAssembly.Memory {
  const pages = Math.max(1, Math.ceil(bytes / pageBytes));
  return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
}

/** One per thread: instances are bound to a memory, and their running sums must not be shared. */
export class KernelRunner {
  readonly #instances = new Map<string, Instance>();
  readonly #numbers = new WeakMap<WebAssembly.Memory, number>();
  readonly #scratchMemory = sharedMemory(scratchPages * pageBytes);
  readonly #scratch = instantiate([this.#scratchMemory]);
  #nextNumber = 1;

  /** One after the other, up to a sum of squares that is not finite. */
  runAll(calls: readonly LoweredCall[], views: readonly (readonly KernelView[])[]): KernelResult[] {
    const results: KernelResult[] = [];
    for (const [i, call] of calls.entries()) {
      const result = this.run(call, views[i] as readonly KernelView[]);
      results.push(result);
      if (call.kind === "sumOfSquares" && !Number.isFinite(result.value)) break;
    }
    return results;
  }

  run(call: LoweredCall, views: readonly KernelView[]): KernelResult {
    const length = views[0]?.view.length ?? 0;
    for (const { view } of views)
      assert(view.length === length, `operands of ${call.kind} have equal lengths, ${view.length} and ${length}`);
    if (call.kind === "fill") views[0]?.view.fill(call.numbers[0] as number);
    else if (call.kind === "copy") views[0]?.view.set(views[1]?.view as Float32Array);
    else return this.#execute(call, views, length);
    return {};
  }

  #execute(call: LoweredCall, views: readonly KernelView[], length: number): KernelResult {
    const memories = views.map(({ memory }) => memory).filter((memory) => memory !== undefined);
    const inPlace =
      memories.length === views.length && (memories.every((memory) => memory === memories[0]) || runsApart());
    const direct = inPlace ? length - (length % groupElements) : 0;
    this.#begin(call);
    let finite = true;
    if (direct > 0) {
      const instance = this.#instanceOf(memories);
      this.#carry(call, this.#scratch, instance);
      instance.call(
        call.name,
        this.#arguments(
          call,
          direct,
          views.map(({ view }) => view.byteOffset),
          0,
        ),
      );
      this.#carry(call, instance, this.#scratch);
      finite = call.kind !== "finite" || instance.global("finite0").value === 0;
    }
    for (let start = direct; start < length; start += scratchElements) {
      this.#staged(call, views, start, Math.min(scratchElements, length - start));
      finite &&= call.kind !== "finite" || this.#scratch.global("finite0").value === 0;
    }
    return this.#result(call, length, finite);
  }

  #instanceOf(memories: readonly WebAssembly.Memory[]): Instance {
    const key = memories.map((memory) => this.#numberOf(memory)).join(",");
    let instance = this.#instances.get(key);
    if (instance === undefined) {
      instance = instantiate(memories);
      this.#instances.set(key, instance);
    }
    return instance;
  }

  #numberOf(memory: WebAssembly.Memory): number {
    let number = this.#numbers.get(memory);
    if (number === undefined) {
      number = this.#nextNumber++;
      this.#numbers.set(memory, number);
    }
    return number;
  }

  /** Lets go of everything that holds the memory. */
  forget(memory: WebAssembly.Memory): void {
    const number = this.#numbers.get(memory);
    if (number === undefined) return;
    for (const key of this.#instances.keys())
      if (key.split(",").map(Number).includes(number)) this.#instances.delete(key);
  }

  /** Copies a block in, pads it with zeros to whole groups, runs, copies what was written out. */
  #staged(call: LoweredCall, views: readonly KernelView[], start: number, count: number): void {
    const padded = Math.ceil(count / groupElements) * groupElements;
    const blocks = views.map((_, i) => new Float32Array(this.#scratchMemory.buffer, i * scratchElements * 4, padded));
    for (const [i, { view }] of views.entries()) {
      (blocks[i] as Float32Array).set(view.subarray(start, start + count));
      (blocks[i] as Float32Array).fill(0, count);
    }
    this.#scratch.call(
      call.name,
      this.#arguments(
        call,
        padded,
        blocks.map((block) => block.byteOffset),
        start,
      ),
    );
    for (const [i, { view }] of views.entries())
      if (call.operands[i]?.writes) view.set((blocks[i] as Float32Array).subarray(0, count), start);
  }

  #arguments(call: LoweredCall, count: number, pointers: readonly number[], start: number): number[] {
    const head = [count * 4, ...pointers];
    if (call.from === undefined) return [...head, ...call.numbers];
    const block = (call.from + start) / 4;
    return [...head, block, Math.floor(block / 4294967296), ...call.numbers];
  }

  #begin(call: LoweredCall): void {
    if (call.kind === "sumOfSquares") for (const lane of sumLanes) this.#scratch.global(lane).value = 0;
    if (call.kind === "digest")
      for (const [i, lane] of digestLanes.entries())
        this.#scratch.global(lane).value = BigInt.asIntN(64, digestMultiplier * BigInt(i + 1));
  }

  #carry(call: LoweredCall, from: Instance, to: Instance): void {
    const lanes = call.kind === "sumOfSquares" ? sumLanes : call.kind === "digest" ? digestLanes : [];
    for (const lane of lanes) to.global(lane).value = from.global(lane).value;
  }

  #result(call: LoweredCall, length: number, finite: boolean): KernelResult {
    if (call.kind === "finite") return { value: finite ? 1 : 0 };
    if (call.kind === "sumOfSquares") {
      const [a, b, c, d] = sumLanes.map((lane) => this.#scratch.global(lane).value as number) as Four;
      return { value: a + b + (c + d) };
    }
    if (call.kind === "digest")
      return {
        digest: finishDigest(
          digestLanes.map((lane) => this.#scratch.global(lane).value),
          length,
        ),
      };
    return {};
  }
}

type Four = [number, number, number, number];

/** The lanes and the length, hashed: the padding's zeros cannot be taken for elements. */
export function finishDigest(lanes: readonly bigint[], length: number): string {
  return sha256(`${length}:${lanes.map((lane) => (lane & laneMask).toString(16)).join(",")}`);
}
