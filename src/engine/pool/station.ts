// What one thread of an executor has: an engine, the programs it loaded, and the kernels. Where the engine works in the memory that the
// caller sees this is all; one on a device (webgpu/station.ts) also knows what lies where.

import { fail } from "../../core/errors.ts";
import type { Tensor, TensorData } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import type { Engine, KernelResult, Program, Tensors } from "../engine.ts";
import { KernelRunner, type KernelView, type LoweredCall, lowerCall } from "../kernels/kernels.ts";

/** A registered graph; its id, not its name, tells two generations of one name apart. */
export interface RegisteredGraph {
  readonly id: number;
  readonly model: GraphModel;
}

/** One thread's engine, loaded programs and kernels. */
export interface Station {
  run(
    graph: RegisteredGraph,
    feeds: Tensors,
    into: Tensors,
    finite: readonly string[],
    keep: readonly string[],
  ): Promise<void>;
  kernels(
    calls: readonly LoweredCall[],
    views: readonly (readonly Float32Array[])[],
  ): readonly KernelResult[] | Promise<readonly KernelResult[]>;
  /** The rest matters to devices alone (DeviceListener). */
  download(views: readonly TensorData[]): Promise<void> | void;
  wrote(views: readonly TensorData[]): Promise<void> | void;
  lasts(buffer: ArrayBufferLike): void;
  forgetBuffer(buffer: ArrayBufferLike): void;
  forgetMemory(memory: WebAssembly.Memory): void;
  forget(graphId: number): Promise<void>;
  numericsClass(): Promise<string>;
  close(): Promise<void>;
}

/** `memoryOf` finds the wasm memory behind a buffer, where there is one. */
export function stationFor(
  engine: Engine,
  memoryOf: (buffer: ArrayBufferLike) => WebAssembly.Memory | undefined,
): Station {
  return engine.openStation?.() ?? new HostStation(engine, memoryOf);
}

class HostStation implements Station {
  readonly #engine: Engine;
  readonly #programs = new Map<number, Program>();
  readonly #kernels = new KernelRunner();
  readonly #memoryOf: (buffer: ArrayBufferLike) => WebAssembly.Memory | undefined;

  constructor(engine: Engine, memoryOf: (buffer: ArrayBufferLike) => WebAssembly.Memory | undefined) {
    this.#engine = engine;
    this.#memoryOf = memoryOf;
  }

  async run(graph: RegisteredGraph, feeds: Tensors, into: Tensors, finite: readonly string[]): Promise<void> {
    let program = this.#programs.get(graph.id);
    if (program === undefined) {
      program = await this.#engine.load(graph.model);
      this.#programs.set(graph.id, program);
    }
    await program.run(feeds, into);
    for (const name of finite) checkFinite(graph.model, name, into[name], this.#kernels, (view) => this.#located(view));
  }

  kernels(calls: readonly LoweredCall[], views: readonly (readonly Float32Array[])[]): readonly KernelResult[] {
    return this.#kernels.runAll(
      calls,
      views.map((each) => each.map((view) => this.#located(view))),
    );
  }

  download(): void {}

  wrote(): void {}

  lasts(): void {}

  forgetBuffer(): void {}

  #located(view: Float32Array): KernelView {
    const memory = this.#memoryOf(view.buffer);
    return memory === undefined ? { view } : { view, memory };
  }

  forgetMemory(memory: WebAssembly.Memory): void {
    this.#kernels.forget(memory);
  }

  async forget(graphId: number): Promise<void> {
    const program = this.#programs.get(graphId);
    this.#programs.delete(graphId);
    await program?.release();
  }

  numericsClass(): Promise<string> {
    return this.#engine.numericsClass();
  }

  async close(): Promise<void> {
    for (const id of [...this.#programs.keys()]) await this.forget(id);
    await this.#engine.close();
  }
}

export function checkFinite(
  model: GraphModel,
  name: string,
  tensor: Tensor | undefined,
  kernels: KernelRunner,
  located: (view: Float32Array) => KernelView = (view) => ({ view }),
): void {
  if (tensor === undefined) fail("invalid_argument", `graph "${model.name}" has no output "${name}" to check`);
  if (!(tensor.data instanceof Float32Array)) return;
  const call = lowerCall({ kind: "finite", of: tensor });
  if (kernels.run(call, [located(tensor.data)]).value === 1) return;
  const at = tensor.data.findIndex((value) => !Number.isFinite(value));
  const value = tensor.data[at];
  fail("out_of_range", `output "${name}" of graph "${model.name}" has ${value} at element ${at}`);
}
