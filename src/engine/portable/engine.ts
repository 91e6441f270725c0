// The portable engine: every graph becomes one WebAssembly module of our own (compile.ts). The same bits on every
// machine and in every browser; knows no Node and no file. Tensors in the engine's memory are worked on where they are,
// others are copied there and back.

import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { allocate, elementBytes, elementCount, type Tensor, type TensorData, viewData } from "../../core/tensor.ts";
import type { GraphModel, ValueInfo } from "../../graph/model.ts";
import { checkTensors } from "../check-tensors.ts";
import type { Engine, Program, Tensors } from "../engine.ts";
import { numericsFingerprint, shortClass } from "../fingerprint.ts";
import { portableClass, portableFingerprint } from "./bits.ts";
import {
  arenaBase,
  type CompiledGraph,
  compileGraph,
  constantsBase,
  faultIndex,
  faultStep,
  inputBase,
  outputBase,
} from "./compile.ts";
import type { TileVectors } from "./gemm.ts";
import { Arena, Heap, LinearMemory } from "./linear-memory.ts";
import type { View } from "./views.ts";

const constantChunkBytes = 1 << 20;

export interface PortableOptions {
  /** The one that an executor's workers share; an engine by itself has its own. */
  readonly memory?: LinearMemory;
  /** Changes the speed alone. */
  readonly tile?: TileVectors;
}

/** More runs of the probe than V8 needs to replace its first, quick code by the optimised one, which must agree. */
const probeRuns = 30;

export function openPortableEngine({ memory = new LinearMemory(), tile = 3 }: PortableOptions = {}): Engine {
  const room: Room = { memory, arena: new Arena(memory), constants: new Heap(memory, constantChunkBytes) };
  const engine: Engine = {
    kind: "portable",
    memory,
    async load(graph) {
      try {
        const compiled = compileGraph(graph, tile);
        return new PortableProgram(graph, compiled, await WebAssembly.compile(compiled.bytes), room);
      } catch (thrown) {
        throw asFailure(thrown, graph, "cannot be compiled by the portable engine");
      }
    },
    /** A machine whose WebAssembly gives other bits is in a class of its own. */
    async numericsClass() {
      const fingerprint = await numericsFingerprint(engine, probeRuns);
      if (fingerprint === portableFingerprint) return portableClass;
      return shortClass(`${portableClass}-other`, [fingerprint]);
    },
    async close() {},
  };
  return engine;
}

function asFailure(thrown: unknown, graph: GraphModel, what: string): DcnrError {
  const code = thrown instanceof DcnrError ? thrown.code : "internal";
  return new DcnrError(code, `graph "${graph.name}" ${what}: ${messageOf(thrown)}`, { cause: thrown });
}

/** What the programs of one thread share. */
interface Room {
  readonly memory: LinearMemory;
  readonly arena: Arena;
  readonly constants: Heap;
}

type Exports = Record<string, (() => void) | WebAssembly.Global>;

class PortableProgram implements Program {
  readonly #graph: GraphModel;
  readonly #compiled: CompiledGraph;
  readonly #room: Room;
  readonly #exports: Exports;
  readonly #constants: number;
  readonly #staged: ReadonlyMap<string, number>;
  readonly #stagedBytes: number;

  constructor(graph: GraphModel, compiled: CompiledGraph, module: WebAssembly.Module, room: Room) {
    this.#graph = graph;
    this.#compiled = compiled;
    this.#room = room;
    const instance = new WebAssembly.Instance(module, { env: { memory0: room.memory.memory } });
    this.#exports = instance.exports as Exports;
    this.#constants =
      room.constants.allocate(compiled.constantBytes) ??
      fail("resource_exhausted", `the constants of graph "${graph.name}" do not fit in memory: use the native engine`);
    for (const { offset, tensor } of compiled.constants)
      setData(viewData(tensor.dtype, this.#bytes(this.#constants + offset, tensor.data.byteLength)), tensor.data);
    const { places, bytes } = stagingPlaces(graph);
    this.#staged = places;
    this.#stagedBytes = bytes;
  }

  #bytes(start: number, length: number): Uint8Array {
    return new Uint8Array(this.#room.memory.buffer, start, length);
  }

  async run(feeds: Tensors, into: Tensors = {}): Promise<Tensors> {
    checkTensors(this.#graph, feeds, into);
    const { inputs, outputs, name } = this.#graph;
    const isHere = (tensor: Tensor | undefined) => tensor?.data.buffer === this.#room.memory.buffer;
    const allHere =
      inputs.every((info) => isHere(feeds[info.name])) && outputs.every((info) => isHere(into[info.name]));
    const { arenaBytes } = this.#compiled;
    const arena = this.#room.arena.reserve(arenaBytes + (allHere ? 0 : this.#stagedBytes), `graph "${name}"`);
    const bases = new Map<string, number>([
      [arenaBase, arena],
      [constantsBase, this.#constants],
    ]);
    const placeOf = (key: string, tensor: Tensor | undefined) =>
      isHere(tensor) ? (tensor as Tensor).data.byteOffset : arena + arenaBytes + (this.#staged.get(key) as number);
    for (const [i, info] of inputs.entries()) {
      const tensor = feeds[info.name] as Tensor;
      const key = inputBase(i);
      bases.set(key, placeOf(key, tensor));
      if (!isHere(tensor)) setData(this.#staging(info, bases.get(key) as number), tensor.data);
    }
    for (const [i, info] of outputs.entries()) bases.set(outputBase(i), placeOf(outputBase(i), into[info.name]));
    this.#execute(bases);
    const results: Record<string, Tensor> = {};
    for (const [i, info] of outputs.entries()) {
      const target = into[info.name] ?? allocate(info.dtype, info.shape);
      if (!isHere(target)) setData(target.data, this.#staging(info, bases.get(outputBase(i)) as number));
      results[info.name] = target;
    }
    return results;
  }

  #staging({ dtype, shape }: ValueInfo, start: number): TensorData {
    return viewData(dtype, this.#bytes(start, elementCount(shape) * elementBytes(dtype)));
  }

  #execute(bases: ReadonlyMap<string, number>): void {
    for (const [name, value] of bases) (this.#exports[name] as WebAssembly.Global).value = value;
    const { segments, origin } = this.#compiled;
    const data = (view: View) => {
      const { base, offset } = origin(view);
      const bytes = elementCount(view.shape) * elementBytes(view.dtype);
      return viewData(view.dtype, this.#bytes((bases.get(base) as number) + offset, bytes));
    };
    try {
      for (const segment of segments)
        if (segment.kind === "code") (this.#exports[segment.name] as () => void)();
        else segment.kernel(segment.reads.map(data), segment.writes.map(data));
    } catch (thrown) {
      throw this.#fault() ?? asFailure(thrown, this.#graph, "failed");
    }
  }

  /** Why the code ended the run, if it did. */
  #fault(): DcnrError | undefined {
    const step = this.#exports[faultStep] as WebAssembly.Global;
    const indexed = this.#compiled.indexed(step.value - 1);
    if (step.value === 0 || indexed === undefined) return undefined;
    step.value = 0;
    const given = (this.#exports[faultIndex] as WebAssembly.Global).value as number;
    return new DcnrError("out_of_range", `${indexed.type}: index ${given} is outside 0..${indexed.size - 1}`);
  }

  async release(): Promise<void> {
    this.#room.constants.free(this.#constants);
  }
}

function setData(target: TensorData, source: TensorData): void {
  (target as Float32Array).set(source as Float32Array);
}

/** Places for all inputs and outputs, behind the arena. */
function stagingPlaces(graph: GraphModel): { places: Map<string, number>; bytes: number } {
  const places = new Map<string, number>();
  let bytes = 0;
  const place = (key: string, { dtype, shape }: ValueInfo) => {
    places.set(key, bytes);
    bytes += Math.ceil((elementCount(shape) * elementBytes(dtype) + 64) / 64) * 64;
  };
  for (const [i, info] of graph.inputs.entries()) place(inputBase(i), info);
  for (const [i, info] of graph.outputs.entries()) place(outputBase(i), info);
  return { places, bytes };
}
