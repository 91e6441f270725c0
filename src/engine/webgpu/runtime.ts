// The device behind onnxruntime-node's WebGPU provider. Every node of a graph must run there: the runtime is forbidden to fall back
// to the CPU, and says so when a graph is loaded. Values come and go through graphs of one Identity, since the runtime has no
// other way that works in Node.

import type { InferenceSession, Tensor as OrtTensor } from "onnxruntime-common";
import { DcnrError, fail, messageOf } from "../../core/errors.ts";
import { type Shape, type Tensor, type TensorData, tensorBytes } from "../../core/tensor.ts";
import type { GraphModel } from "../../graph/model.ts";
import { encodeOnnx } from "../../graph/onnx.ts";
import type { Tensors } from "../engine.ts";
import { type OnnxRuntime, optimizationLevel } from "../onnx/onnx-runtime.ts";
import {
  type Device,
  type DeviceProgram,
  type DeviceValue,
  type Feed,
  isOnDevice,
  lostDevice,
  resident,
  type Traffic,
} from "./device.ts";
import { lowerForDevice } from "./lower.ts";

/** Sessions that carry values of one type and shape, at most so many at a time. */
const carriersMax = 256;

export interface DeviceOptions {
  /** Milliseconds, where somebody measures. */
  readonly now?: () => number;
  /** For tests: it is lost after so many runs. */
  readonly lostAfter?: number;
}

type Layout = "NHWC" | "NCHW";

interface RuntimeValue extends DeviceValue {
  readonly tensor: OrtTensor;
}

export class WebgpuDevice implements Device {
  readonly #runtime: OnnxRuntime;
  readonly #now: () => number;
  #runsLeft: number;
  readonly #carriers = new Map<string, Promise<InferenceSession>>();
  readonly traffic: Traffic = { up: 0, down: 0, resident: 0, busyMs: 0 };

  constructor(runtime: OnnxRuntime, { now = () => 0, lostAfter = Number.POSITIVE_INFINITY }: DeviceOptions = {}) {
    this.#runtime = runtime;
    this.#now = now;
    this.#runsLeft = lostAfter;
  }

  /** With the layout NCHW the runtime moves no axes by itself: it does so through comparisons too, whose bools it cannot turn on a GPU. */
  async load(graph: GraphModel, stays: ReadonlySet<string>, layout: Layout = "NHWC"): Promise<DeviceProgram> {
    try {
      const session = await this.#open(lowerForDevice(graph), stays, layout);
      return {
        run: (feeds, into) => this.#run(session, graph, feeds, into, stays),
        release: () => session.release(),
      };
    } catch (thrown) {
      throw asFailure(thrown, `graph "${graph.name}" cannot be loaded by the webgpu engine`);
    }
  }

  async upload(tensor: Tensor): Promise<DeviceValue> {
    const session = await this.#carrier("up", tensor.dtype, tensor.shape);
    const { out } = await this.#timed(() => session.run({ in: this.#toRuntime(tensor) }));
    this.traffic.up += tensor.data.byteLength;
    return this.#value(out as OrtTensor, tensor.dtype, tensor.shape);
  }

  async download(value: DeviceValue, into: TensorData): Promise<void> {
    const session = await this.#carrier("down", value.dtype, value.shape);
    const out = this.#toRuntime({ dtype: value.dtype, shape: value.shape, data: into });
    await this.#timed(() => session.run({ in: (value as RuntimeValue).tensor }, { out }));
    this.traffic.down += into.byteLength;
  }

  #open(graph: GraphModel, stays: ReadonlySet<string>, preferredLayout: Layout = "NHWC"): Promise<InferenceSession> {
    const places = graph.outputs.map(({ name }) => [name, stays.has(name) ? "gpu-buffer" : "cpu"] as const);
    return this.#runtime.InferenceSession.create(encodeOnnx(graph), {
      executionProviders: [{ name: "webgpu", preferredLayout }],
      graphOptimizationLevel: optimizationLevel,
      logSeverityLevel: 4,
      preferredOutputLocation: Object.fromEntries(places),
      extra: { session: { disable_cpu_ep_fallback: "1" } },
    });
  }

  async #run(
    session: InferenceSession,
    graph: GraphModel,
    feeds: Readonly<Record<string, Feed>>,
    into: Tensors,
    stays: ReadonlySet<string>,
  ): Promise<Record<string, DeviceValue>> {
    const given: Record<string, OrtTensor> = {};
    for (const { name } of graph.inputs) {
      const feed = feeds[name] as Feed;
      if (!isOnDevice(feed)) this.traffic.up += feed.data.byteLength;
      given[name] = isOnDevice(feed) ? (feed as RuntimeValue).tensor : this.#toRuntime(feed);
    }
    try {
      if (--this.#runsLeft < 0) throw new Error("device lost: a test took it away");
      // Outputs are not written in place where others stay: the runtime would leave the given buffers as they are.
      const results = await this.#timed(() => session.run(given));
      const values: Record<string, DeviceValue> = {};
      for (const { name, dtype, shape } of graph.outputs) {
        const result = results[name] as OrtTensor;
        if (stays.has(name)) values[name] = this.#value(result, dtype, shape);
        else this.#copy(result, into[name]);
      }
      return values;
    } catch (thrown) {
      throw asFailure(thrown, `graph "${graph.name}" failed on the GPU`);
    }
  }

  #copy(result: OrtTensor, into: Tensor | undefined): void {
    if (into === undefined) return;
    this.traffic.down += into.data.byteLength;
    (into.data as Float32Array).set(result.data as Float32Array);
  }

  #toRuntime({ dtype, data, shape }: Tensor): OrtTensor {
    if (dtype === "bfloat16") fail("unimplemented", "the runtime computes in float32: convert bfloat16 first");
    return new this.#runtime.Tensor(dtype, data as OrtTensor.DataType, shape);
  }

  #value(tensor: OrtTensor, dtype: Tensor["dtype"], shape: Shape): RuntimeValue {
    const dispose = resident(this.traffic, tensorBytes(dtype, shape), () => tensor.dispose());
    return { dtype, shape, tensor, dispose };
  }

  /** One for each type and shape; the least recently opened goes when there are too many. */
  #carrier(way: "up" | "down", dtype: Tensor["dtype"], shape: Shape): Promise<InferenceSession> {
    const key = `${way} ${dtype} ${shape}`;
    const known = this.#carriers.get(key);
    if (known !== undefined) return known;
    const info = (name: string) => ({ name, dtype, shape });
    const carry = { op: "Identity", name: "carry", inputs: ["in"], outputs: ["out"], attributes: {} };
    const graph = { name: key, inputs: [info("in")], outputs: [info("out")], nodes: [carry], constants: {} };
    const opening = this.#open(graph, new Set(way === "up" ? ["out"] : []));
    this.#carriers.set(key, opening);
    const [oldest] = this.#carriers.keys();
    if (this.#carriers.size > carriersMax && oldest !== undefined) {
      const gone = this.#carriers.get(oldest);
      this.#carriers.delete(oldest);
      void gone?.then((session) => session.release());
    }
    return opening;
  }

  async #timed<T>(work: () => Promise<T>): Promise<T> {
    const start = this.#now();
    try {
      return await work();
    } finally {
      this.traffic.busyMs += this.#now() - start;
    }
  }

  async close(): Promise<void> {
    for (const carrier of this.#carriers.values()) await (await carrier).release();
    this.#carriers.clear();
  }
}

/** What the runtime and the driver say when a device is gone; nothing that lay on it can be had any more. */
const lostWords = /device (was |is )?lost|devicelost|VK_ERROR_DEVICE_LOST|DXGI_ERROR_DEVICE_(REMOVED|HUNG|RESET)/i;

export function asFailure(thrown: unknown, what: string): DcnrError {
  if (thrown instanceof DcnrError) return thrown;
  const reason = messageOf(thrown).replaceAll(/\s+/g, " ").slice(0, 500);
  if (lostWords.test(reason)) return new DcnrError("unavailable", `${lostDevice}: ${reason}`, { cause: thrown });
  if (/assigned to the default CPU EP/.test(reason))
    return new DcnrError("unimplemented", `${what}: an operator of it does not run on GPUs`, { cause: thrown });
  return new DcnrError("internal", `${what}: ${reason}`, { cause: thrown });
}
