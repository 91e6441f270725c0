// WebGPU numerics in browsers, by shaders of our own: a page must not bring a runtime that is ten times larger than all the rest of
// it. Its class is made of the adapter as the browser describes it, the browser's version, ours, and the bits that come out: two
// adapters share one only if all of it is alike.

import { bits } from "../../core/bits.ts";
import { fail, messageOf } from "../../core/errors.ts";
import type { Engine } from "../engine.ts";
import { numericsFingerprint, shortClass } from "../fingerprint.ts";
import { programOn } from "../webgpu/program.ts";
import { DeviceStation } from "../webgpu/station.ts";
import { BrowserDevice, type GpuOptions } from "./device.ts";

/** Counts what changes bits in this folder. */
const lowering = "1";

/** Runs of the probe: a GPU whose bits do not repeat is in a class of its own. */
const probeRuns = 3;

export interface WgslEngine extends Engine {
  readonly device: BrowserDevice;
  /** The adapter as the browser describes it. */
  readonly adapter: string;
}

export interface WgslOptions extends GpuOptions {
  /** Absent in browsers without WebGPU. */
  readonly gpu: GPU | undefined;
  /** The browser's name and version, which decide how shaders are compiled. */
  readonly browser: string;
}

export async function openWgslEngine({ gpu, browser, ...options }: WgslOptions): Promise<WgslEngine> {
  if (gpu === undefined) return fail("failed_precondition", "no GPU can be used: this browser has no WebGPU");
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (adapter === null) return fail("failed_precondition", "no GPU can be used: this browser gives pages none");
  const device = new BrowserDevice(await deviceOf(adapter), options);
  const { vendor, architecture, device: model, description } = adapter.info;
  const described = [vendor, architecture, model, description].filter((word) => word !== "").join(" ");
  const engine: WgslEngine = {
    kind: "webgpu",
    device,
    adapter: described,
    openStation: () => new DeviceStation(engine, device),
    load: async (graph) => programOn(graph, await device.load(graph, new Set())),
    async numericsClass() {
      const fingerprint = await numericsFingerprint(engine, probeRuns);
      return shortClass("webgpu", ["wgsl", lowering, String(bits), browser, described, fingerprint]);
    },
    close: () => device.close(),
  };
  return engine;
}

/** As large as the adapter allows: a head's weights are more than what every browser grants. */
async function deviceOf(adapter: GPUAdapter): Promise<GPUDevice> {
  const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
  try {
    return await adapter.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } });
  } catch (thrown) {
    return fail("failed_precondition", `no GPU can be used: the browser refuses it (${messageOf(thrown)})`);
  }
}
