// A browser's GPU as a device: it compiles the shaders of graphs (lower.ts), binds buffers to them and submits them. All that decides
// bits has been decided before.

import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { elementCount, type Shape, type Tensor, type TensorData, tensorBytes } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import type { Tensors } from "../engine.ts";
import {
  type Device,
  type DeviceProgram,
  type DeviceValue,
  type Feed,
  isOnDevice,
  lostDevice,
  resident,
  type Traffic,
} from "../webgpu/device.ts";
import { BufferStore } from "./buffers.ts";
import { type Buffer, lowerToShaders, type ShaderPlan } from "./lower.ts";
import { Pipelines } from "./pipelines.ts";
import { asWords, checkIndices, fromWords } from "./words.ts";

export interface GpuOptions {
  /** Of the GPU's memory. */
  readonly bytesMax?: number;
  /** Milliseconds, where somebody measures. */
  readonly now?: () => number;
}

interface GpuValue extends DeviceValue {
  readonly buffer: GPUBuffer;
}

/** What belongs to one loaded graph. */
interface Loaded {
  readonly graph: GraphModel;
  readonly plan: ShaderPlan;
  readonly stays: ReadonlySet<string>;
  readonly pipelines: readonly GPUComputePipeline[];
  /** By the number of the buffer. */
  readonly constants: ReadonlyMap<number, GPUBuffer>;
  /** Numbers of the dispatches, each at its place. */
  readonly numbers: GPUBuffer | undefined;
}

/** Where the numbers of a dispatch may begin. */
const numbersAlignment = 256;

/** An output that the caller reads, and where it lies among those that are brought. */
interface Brought {
  readonly buffer: GPUBuffer;
  readonly bytes: number;
  readonly into: TensorData;
}

export class BrowserDevice implements Device {
  readonly traffic: Traffic = { up: 0, down: 0, resident: 0, busyMs: 0 };
  readonly #gpu: GPUDevice;
  readonly #store: BufferStore;
  readonly #now: () => number;
  readonly #pipelines: Pipelines;
  #lost: string | undefined;
  #closed = false;

  constructor(gpu: GPUDevice, { bytesMax = Number.POSITIVE_INFINITY, now = () => 0 }: GpuOptions = {}) {
    this.#gpu = gpu;
    this.#store = new BufferStore(gpu, bytesMax);
    this.#pipelines = new Pipelines(gpu);
    this.#now = now;
    void gpu.lost.then(({ message, reason }) => this.#lose(message || reason));
    // What a driver refuses is noticed nowhere else, and what was to be computed is not there: nothing on the device is to be trusted.
    gpu.addEventListener("uncapturederror", ({ error }) => this.#lose(error.message));
  }

  #lose(reason: string): void {
    if (!this.#closed) this.#lost ??= `${lostDevice}: ${reason.replaceAll(/\s+/g, " ").slice(0, 300)}`;
  }

  #checkHere(): void {
    if (this.#lost !== undefined) throw new DcnrError("unavailable", this.#lost);
  }

  /** Idle or not, in bytes. */
  get memoryBytes(): number {
    return this.#store.bytes;
  }

  async load(graph: GraphModel, stays: ReadonlySet<string>): Promise<DeviceProgram> {
    this.#checkHere();
    const plan = lowerToShaders(graph);
    for (const { bytes } of plan.buffers) this.#checkSize(bytes);
    const codes = plan.dispatches.map(({ code }) => code);
    try {
      const pipelines = await this.#pipelines.take(codes);
      const loaded: Loaded = {
        graph,
        plan,
        stays,
        pipelines,
        constants: this.#uploadConstants(plan),
        numbers: this.#uploadNumbers(plan),
      };
      return { run: (feeds, into) => this.#run(loaded, feeds, into), release: async () => this.#release(loaded) };
    } catch (thrown) {
      this.#pipelines.give(codes);
      this.#checkHere();
      throw DcnrError.from(thrown);
    }
  }

  #checkSize(bytes: number): void {
    const most = Math.min(this.#gpu.limits.maxStorageBufferBindingSize, this.#gpu.limits.maxBufferSize);
    if (bytes > most)
      fail("resource_exhausted", `a tensor of ${bytes} bytes does not fit this GPU, which takes ${most}`);
  }

  #uploadConstants({ buffers }: ShaderPlan): Map<number, GPUBuffer> {
    const constants = new Map<number, GPUBuffer>();
    for (const [number, buffer] of buffers.entries()) {
      if (buffer.kind !== "constants") continue;
      const words = { f32: Float32Array, i32: Int32Array, u32: Uint32Array }[buffer.word].from(buffer.words);
      const place = this.#store.take(buffer.bytes);
      this.#gpu.queue.writeBuffer(place, 0, words as BufferSource);
      constants.set(number, place);
    }
    return constants;
  }

  #uploadNumbers({ dispatches }: ShaderPlan): GPUBuffer | undefined {
    if (dispatches.every(({ numbers }) => numbers.length === 0)) return undefined;
    const data = new Int32Array((dispatches.length * numbersAlignment) / 4);
    for (const [i, { numbers }] of dispatches.entries()) data.set(numbers, (i * numbersAlignment) / 4);
    const buffer = this.#store.take(data.byteLength);
    this.#gpu.queue.writeBuffer(buffer, 0, data);
    return buffer;
  }

  #release({ plan, constants, numbers }: Loaded): void {
    this.#pipelines.give(plan.dispatches.map(({ code }) => code));
    if (numbers !== undefined) this.#store.give(numbers);
    for (const buffer of constants.values()) this.#store.give(buffer);
    this.#store.trim();
  }

  async upload(tensor: Tensor): Promise<DeviceValue> {
    this.#checkHere();
    const buffer = this.#sent(tensor);
    return this.#value(buffer, tensor.dtype, tensor.shape);
  }

  #sent({ data, dtype, shape }: Tensor): GPUBuffer {
    this.#checkSize(4 * elementCount(shape));
    const buffer = this.#store.take(4 * elementCount(shape));
    this.traffic.up += tensorBytes(dtype, shape);
    this.#gpu.queue.writeBuffer(buffer, 0, asWords(data) as BufferSource);
    return buffer;
  }

  #value(buffer: GPUBuffer, dtype: Tensor["dtype"], shape: Shape): GpuValue {
    const dispose = resident(this.traffic, tensorBytes(dtype, shape), () => this.#store.give(buffer));
    return { dtype, shape, buffer, dispose };
  }

  async download(value: DeviceValue, into: TensorData): Promise<void> {
    this.#checkHere();
    const { buffer, shape } = value as GpuValue;
    const encoder = this.#gpu.createCommandEncoder();
    await this.#timed(this.#bring(encoder, [{ buffer, bytes: 4 * elementCount(shape), into }]));
  }

  async #run(
    loaded: Loaded,
    feeds: Readonly<Record<string, Feed>>,
    into: Tensors,
  ): Promise<Readonly<Record<string, DeviceValue>>> {
    this.#checkHere();
    const { graph, plan, stays } = loaded;
    checkIndices(graph, plan, feeds);
    const borrowed: GPUBuffer[] = [];
    const borrow = (bytes: number) => {
      const buffer = this.#store.take(bytes);
      borrowed.push(buffer);
      return buffer;
    };
    const encoder = this.#gpu.createCommandEncoder();
    const values: Record<string, DeviceValue> = {};
    const brought: Brought[] = [];
    try {
      const slots = plan.slots.map(borrow);
      const outputs = graph.outputs.map(({ name, dtype, shape }) => {
        const bytes = 4 * elementCount(shape);
        const target = into[name];
        if (!stays.has(name)) {
          const buffer = borrow(bytes);
          if (target !== undefined) brought.push({ buffer, bytes, into: target.data });
          return buffer;
        }
        const buffer = this.#store.take(bytes);
        values[name] = this.#value(buffer, dtype, shape);
        return buffer;
      });
      const numbers = this.#numbers(encoder, loaded, feeds, borrow);
      const place = (buffer: Buffer, number: number): GPUBuffer => {
        switch (buffer.kind) {
          case "numbers":
            return numbers as GPUBuffer;
          case "constants":
            return loaded.constants.get(number) as GPUBuffer;
          case "output":
            return outputs[buffer.index] as GPUBuffer;
          case "scratch":
            return slots[plan.slotOf.get(number) ?? -1] as GPUBuffer;
          case "input":
            return this.#fed(feeds[graph.inputs[buffer.index]?.name ?? ""] as Feed, borrowed);
        }
      };
      this.#encode(encoder, loaded, plan.buffers.map(place));
    } catch (thrown) {
      for (const value of Object.values(values)) value.dispose();
      for (const buffer of borrowed) this.#store.give(buffer);
      throw thrown;
    }
    const bringing = this.#bring(encoder, brought);
    for (const buffer of borrowed) this.#store.give(buffer);
    await this.#timed(bringing);
    return values;
  }

  #fed(feed: Feed, borrowed: GPUBuffer[]): GPUBuffer {
    if (isOnDevice(feed)) return (feed as GpuValue).buffer;
    const buffer = this.#sent(feed);
    borrowed.push(buffer);
    return buffer;
  }

  /** Feeds of a single float, one behind the other. */
  #numbers(
    encoder: GPUCommandEncoder,
    { graph, plan }: Loaded,
    feeds: Readonly<Record<string, Feed>>,
    borrow: (bytes: number) => GPUBuffer,
  ): GPUBuffer | undefined {
    if (plan.numbers.size === 0) return undefined;
    const buffer = borrow(4 * plan.numbers.size);
    const data = new Float32Array(plan.numbers.size);
    for (const [input, at] of plan.numbers) {
      const feed = feeds[graph.inputs[input]?.name ?? ""] as Feed;
      if (isOnDevice(feed)) encoder.copyBufferToBuffer((feed as GpuValue).buffer, 0, buffer, 4 * at, 4);
      else data[at] = Number(feed.data[0]);
    }
    this.traffic.up += data.byteLength;
    this.#gpu.queue.writeBuffer(buffer, 0, data);
    return buffer;
  }

  #encode(encoder: GPUCommandEncoder, { plan, pipelines, numbers }: Loaded, places: readonly GPUBuffer[]): void {
    const pass = encoder.beginComputePass();
    for (const [i, { bindings, groups, numbers: own }] of plan.dispatches.entries()) {
      const pipeline = pipelines[i] as GPUComputePipeline;
      const entries: GPUBindGroupEntry[] = bindings.map(({ buffer }, binding) => {
        const size = Math.max(4, plan.buffers[buffer]?.bytes ?? 0);
        return { binding, resource: { buffer: places[buffer] as GPUBuffer, size } };
      });
      if (numbers !== undefined && own.length > 0) {
        const resource = { buffer: numbers, offset: i * numbersAlignment, size: 16 * Math.ceil(own.length / 4) };
        entries.push({ binding: entries.length, resource });
      }
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, this.#gpu.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
      pass.dispatchWorkgroups(...groups);
    }
    pass.end();
  }

  /** Submits what was encoded, and resolves when its results are in the caller's memory; at once where none are wanted. */
  async #bring(encoder: GPUCommandEncoder, brought: readonly Brought[]): Promise<void> {
    const total = brought.reduce((sum, { bytes }) => sum + bytes, 0);
    if (total === 0) {
      this.#gpu.queue.submit([encoder.finish()]);
      return;
    }
    const staging = this.#store.take(total, "staging");
    let at = 0;
    for (const { buffer, bytes } of brought) {
      encoder.copyBufferToBuffer(buffer, 0, staging, at, bytes);
      at += bytes;
    }
    this.#gpu.queue.submit([encoder.finish()]);
    try {
      await staging.mapAsync(1, 0, total);
    } catch (thrown) {
      // Told by the browser a moment before or after.
      await Promise.resolve();
      this.#lose(messageOf(thrown));
    }
    this.#checkHere();
    const mapped = staging.getMappedRange(0, total);
    let from = 0;
    for (const { bytes, into } of brought) {
      fromWords(mapped, from, bytes / 4, into);
      this.traffic.down += into.byteLength;
      from += bytes;
    }
    staging.unmap();
    this.#store.give(staging, "staging");
  }

  async #timed(work: Promise<void>): Promise<void> {
    const start = this.#now();
    try {
      await work;
    } finally {
      this.traffic.busyMs += this.#now() - start;
    }
  }

  /** For tests: it goes as it does when a driver fails. */
  takeAway(): void {
    this.#gpu.destroy();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#gpu.destroy();
  }
}
