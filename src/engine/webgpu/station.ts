// What a worker does for an executor on a device: it keeps in the device's memory what the executor allocated and what shall be kept,
// feeds programs from there, and runs optimizers there. Everything else happens in shared memory, which is brought up to date first.

import { DcnrError, fail } from "../../core/errors.ts";
import type { Shape, Tensor } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import type { Engine, KernelResult, Tensors } from "../engine.ts";
import { KernelRunner, type LoweredCall } from "../kernels/kernels.ts";
import { checkFinite, type RegisteredGraph, type Station } from "../pool/station.ts";
import { type Device, type DeviceProgram, type Feed, lostDevice } from "./device.ts";
import { type DeviceKernel, deviceKernel, runsOnDevice, squaresGraph } from "./kernels.ts";
import { Residency } from "./residency.ts";
import { cutSegments, type Segment } from "./segments.ts";

interface Loaded {
  readonly program: DeviceProgram;
  readonly stays: ReadonlySet<string>;
}

/** Programs of kernels are as many as a session's parameters have shapes; beyond it the oldest goes. */
const kernelProgramsMax = 512;

export class DeviceStation implements Station {
  readonly #engine: Engine;
  readonly #device: Device;
  readonly #residency: Residency;
  readonly #kernels = new KernelRunner();
  /** By graph and by what stays. */
  readonly #programs = new Map<number, Map<string, Loaded>>();
  readonly #kernelPrograms = new Map<string, DeviceProgram>();
  /** Memory whose tensors stay on the device once they were there. */
  readonly #lasting = new WeakSet<ArrayBufferLike>();
  readonly #runsThere: (kernel: string) => boolean;
  #lost: DcnrError | undefined;

  /** `runsThere`: which kernels the device computes as they shall be; sums of squares are one of them. */
  constructor(engine: Engine, device: Device, runsThere: (kernel: string) => boolean = runsOnDevice) {
    this.#engine = engine;
    this.#device = device;
    this.#runsThere = runsThere;
    this.#residency = new Residency(device);
  }

  get residentBytes(): number {
    return this.#device.traffic.resident;
  }

  run(
    graph: RegisteredGraph,
    feeds: Tensors,
    into: Tensors,
    finite: readonly string[],
    keep: readonly string[],
  ): Promise<void> {
    return this.#unlessLost(async () => {
      const { program, stays } = await this.#loaded(graph, into, keep);
      const given: Record<string, Feed> = {};
      for (const { name } of graph.model.inputs) given[name] = await this.#feed(feeds[name] as Tensor);
      const values = await program.run(given, into);
      for (const { name } of graph.model.outputs) {
        const [tensor, value] = [into[name] as Tensor, values[name]];
        if (value === undefined) await this.#residency.overwritten(tensor);
        else await this.#residency.put(tensor, value, false);
      }
      for (const name of finite) if (!stays.has(name)) checkFinite(graph.model, name, into[name], this.#kernels);
    });
  }

  async #loaded({ id, model }: RegisteredGraph, into: Tensors, keep: readonly string[]): Promise<Loaded> {
    const lasting = (name: string) => this.#lasting.has((into[name] as Tensor).data.buffer);
    const stays = model.outputs.map(({ name }) => name).filter((name) => keep.includes(name) || lasting(name));
    const known = this.#programs.get(id) ?? new Map<string, Loaded>();
    this.#programs.set(id, known);
    const key = stays.join();
    const loaded = known.get(key) ?? (await this.#load(model, new Set(stays)));
    known.set(key, loaded);
    return loaded;
  }

  async #load(model: GraphModel, stays: ReadonlySet<string>): Promise<Loaded> {
    return { program: await this.#device.load(model, stays), stays };
  }

  async #feed(tensor: Tensor): Promise<Feed> {
    const held = await this.#residency.find(tensor);
    if (held !== undefined || !this.#lasting.has(tensor.data.buffer)) return held ?? tensor;
    const value = await this.#device.upload(tensor);
    await this.#residency.put(tensor, value, true);
    return value;
  }

  kernels(calls: readonly LoweredCall[], views: readonly (readonly Float32Array[])[]): Promise<KernelResult[]> {
    return this.#unlessLost(async () => {
      const results: KernelResult[] = [];
      for (const [i, call] of calls.entries()) {
        const result = await this.#kernel(call, views[i] as readonly Float32Array[]);
        results.push(result);
        if (call.kind === "sumOfSquares" && !Number.isFinite(result.value)) break;
      }
      return results;
    });
  }

  async #kernel(call: LoweredCall, views: readonly Float32Array[]): Promise<KernelResult> {
    if (!this.#runsThere(call.kind === "sumOfSquares" ? call.kind : call.name)) return this.#here(call, views);
    if (call.kind === "sumOfSquares") return { value: await this.#squares(call, views) };
    for (const segment of await cutSegments(this.#residency, views)) {
      if (segment.isResident) await this.#there(call, segment);
      else this.#kernels.run(call, segment.tensors.map(hostView));
    }
    return {};
  }

  /** In shared memory, which holds the newest before and after. */
  async #here(call: LoweredCall, views: readonly Float32Array[]): Promise<KernelResult> {
    for (const data of views) await this.#residency.download({ data });
    const result = this.#kernels.run(
      call,
      views.map((data) => ({ view: data })),
    );
    for (const [i, data] of views.entries()) if (call.operands[i]?.writes) await this.#residency.overwritten({ data });
    return result;
  }

  async #there(call: LoweredCall, { shape, feeds, tensors }: Segment): Promise<void> {
    const kernel = deviceKernel(call.name, shape);
    const program = await this.#kernelProgram(kernel.graph, new Set(kernel.results.values()));
    const values = await program.run(feedsOf(kernel, feeds, call.numbers), {});
    for (const [place, name] of kernel.results) {
      const [tensor, value] = [tensors[place], values[name]];
      if (tensor === undefined || value === undefined) fail("internal", `the kernel ${call.name} gave no ${name}`);
      await this.#residency.put(tensor, value, false);
    }
  }

  async #squares(call: LoweredCall, views: readonly Float32Array[]): Promise<number> {
    let sum = 0;
    for (const { isResident, feeds, tensors, shape } of await cutSegments(this.#residency, views)) {
      if (isResident) sum += await this.#squaresThere(feeds[0] as Feed, shape);
      else sum += this.#kernels.run(call, tensors.map(hostView)).value ?? Number.NaN;
    }
    return sum;
  }

  async #squaresThere(of: Feed, shape: Shape): Promise<number> {
    const graph = squaresGraph(shape);
    const program = await this.#kernelProgram(graph, new Set());
    const rows = graph.outputs[0]?.shape ?? [];
    const sums = new Float32Array(rows[0] ?? 0);
    await program.run({ of }, { sums: { dtype: "float32", shape: rows, data: sums } });
    return sums.reduce((sum, value) => sum + value, 0);
  }

  async #kernelProgram(graph: GraphModel, stays: ReadonlySet<string>): Promise<DeviceProgram> {
    const known = this.#kernelPrograms.get(graph.name);
    if (known !== undefined) return known;
    const program = await this.#device.load(graph, stays);
    this.#kernelPrograms.set(graph.name, program);
    const [oldest] = this.#kernelPrograms;
    if (this.#kernelPrograms.size > kernelProgramsMax && oldest !== undefined) {
      this.#kernelPrograms.delete(oldest[0]);
      await oldest[1].release();
    }
    return program;
  }

  download(views: readonly Tensor["data"][]): Promise<void> {
    return this.#unlessLost(async () => {
      for (const data of views) await this.#residency.download({ data });
    });
  }

  wrote(views: readonly Tensor["data"][]): Promise<void> {
    return this.#unlessLost(async () => {
      for (const data of views) await this.#residency.overwritten({ data });
    });
  }

  lasts(buffer: ArrayBufferLike): void {
    this.#lasting.add(buffer);
  }

  forgetBuffer(buffer: ArrayBufferLike): void {
    this.#residency.forget(buffer);
  }

  forgetMemory(memory: WebAssembly.Memory): void {
    this.#kernels.forget(memory);
  }

  async forget(graphId: number): Promise<void> {
    const programs = this.#programs.get(graphId);
    this.#programs.delete(graphId);
    for (const { program } of programs?.values() ?? []) await program.release();
  }

  numericsClass(): Promise<string> {
    return this.#unlessLost(() => this.#engine.numericsClass());
  }

  async close(): Promise<void> {
    this.#residency.clear();
    for (const id of [...this.#programs.keys()]) await this.forget(id);
    for (const program of this.#kernelPrograms.values()) await program.release();
    this.#kernelPrograms.clear();
    await this.#engine.close();
  }

  /** Weights and moments that lay on a lost device are gone: nothing that follows could be right. */
  async #unlessLost<T>(work: () => Promise<T>): Promise<T> {
    if (this.#lost !== undefined) throw this.#lost;
    try {
      return await work();
    } catch (thrown) {
      const failure = DcnrError.from(thrown);
      if (failure.message.startsWith(lostDevice)) this.#lost = failure;
      throw failure;
    }
  }
}

function hostView({ data }: Tensor): { view: Float32Array } {
  return { view: data as Float32Array };
}

function feedsOf(kernel: DeviceKernel, feeds: readonly Feed[], numbers: readonly number[]): Record<string, Feed> {
  const given: Record<string, Feed> = {};
  for (const [i, name] of kernel.operands.entries()) given[name] = feeds[i] as Feed;
  for (const [i, name] of kernel.numbers.entries())
    given[name] = { dtype: "float32", shape: [], data: Float32Array.of(numbers[i] as number) };
  return given;
}
