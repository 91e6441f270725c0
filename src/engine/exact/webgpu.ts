// Exact numerics on a GPU. Optimizers divide and take roots, which GPUs do as they like: those run on the processor, by the kernels that all engines share.

import type { GraphModel } from "../../graph/model.ts";
import type { Engine } from "../engine.ts";
import type { Device } from "../webgpu/device.ts";
import { openWebgpuEngine, type WebgpuEngine } from "../webgpu/engine.ts";
import { programOn } from "../webgpu/program.ts";
import type { DeviceOptions } from "../webgpu/runtime.ts";
import { DeviceStation } from "../webgpu/station.ts";
import { exactForDevice } from "./device-lower.ts";
import { exactClassOf } from "./engine.ts";
import { exactGraph } from "./lower.ts";

const probeRuns = 3;

export interface ExactWebgpuEngine extends Engine {
  readonly device: Device;
}

export async function openExactWebgpuEngine(options: DeviceOptions = {}): Promise<ExactWebgpuEngine> {
  return openExactOn(await openWebgpuEngine(options));
}

/** On the same device: a process has one. */
export function openExactOn(webgpu: WebgpuEngine): ExactWebgpuEngine {
  const inner = webgpu.device;
  const load = async (graph: GraphModel, stays: ReadonlySet<string>) =>
    inner.load(exactForDevice(exactGraph(graph)), stays, "NCHW");
  const device: Device = {
    traffic: inner.traffic,
    load,
    upload: (tensor) => inner.upload(tensor),
    download: (value, into) => inner.download(value, into),
  };
  const engine: ExactWebgpuEngine = {
    ...webgpu,
    kind: "exact-webgpu",
    device,
    openStation: () => new DeviceStation(engine, device, (kernel) => kernel === "accumulate"),
    load: async (graph) => programOn(graph, await load(graph, new Set())),
    numericsClass: () => exactClassOf(engine, probeRuns),
  };
  return engine;
}
