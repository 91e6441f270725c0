// The engine on a GPU: ONNX Runtime's WebGPU provider, which is in the package that the native engine uses. Two of them at once in one
// process crash the layer above the driver, so there is one. Its bits repeat on one adapter with one driver, not beyond.

import { fail, messageOf } from "../../core/errors.ts";
import { loadOptional } from "../../core/optional.ts";
import type { Engine } from "../engine.ts";
import { numericsFingerprint, shortClass } from "../fingerprint.ts";
import { libraryHash, type NativeRuntime, silenceTelemetry } from "../onnx/native.ts";
import { optimizationLevel } from "../onnx/onnx-runtime.ts";
import { programOn } from "./program.ts";
import { type DeviceOptions, WebgpuDevice } from "./runtime.ts";
import { DeviceStation } from "./station.ts";

/** Counts what changes bits in lower.ts and kernels.ts. */
const lowering = "1";

/** Runs of the probe: a GPU whose bits do not repeat is in a class of its own. */
const probeRuns = 3;

export interface WebgpuEngine extends Engine {
  readonly device: WebgpuDevice;
}

export async function openWebgpuEngine(options: DeviceOptions = {}): Promise<WebgpuEngine> {
  silenceTelemetry();
  const runtime = await loadOptional<NativeRuntime>("onnxruntime-node", "native", "webgpu numerics");
  if (!runtime.listSupportedBackends?.().some(({ name }) => name === "webgpu"))
    fail(
      "failed_precondition",
      `the runtime has no WebGPU on ${process.platform} ${process.arch}: use native or portable`,
    );
  const device = new WebgpuDevice(runtime, options);
  await proveAdapter(device);
  const engine: WebgpuEngine = {
    kind: "webgpu",
    device,
    openStation: () => new DeviceStation(engine, device),
    load: async (graph) => programOn(graph, await device.load(graph, new Set())),
    async numericsClass() {
      const fingerprint = await numericsFingerprint(engine, probeRuns);
      const version = runtime.env.versions.node ?? "unknown";
      return shortClass("webgpu", [version, await libraryHash(), optimizationLevel, lowering, fingerprint]);
    },
    close: () => device.close(),
  };
  return engine;
}

/** The first use of the provider opens the adapter: that there is none, or that its driver is refused, shows here. */
async function proveAdapter(device: WebgpuDevice): Promise<void> {
  try {
    const value = await device.upload({ dtype: "float32", shape: [1], data: Float32Array.of(1) });
    value.dispose();
  } catch (thrown) {
    const reason = messageOf(thrown).replaceAll(/\s+/g, " ");
    if (/No supported adapters/.test(reason))
      fail(
        "failed_precondition",
        "no GPU can be used: there is none, or its driver is too old or has no Vulkan, Metal or Direct3D 12: update it",
      );
    fail("failed_precondition", `the GPU's driver is refused by the runtime: ${reason.slice(-300)}`);
  }
}
