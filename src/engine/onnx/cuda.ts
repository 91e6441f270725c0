// CUDA by the native runtime's own provider, where the owner of a machine has put its libraries beside the runtime (docs/how-to/gpus.md says
// which). Never needed: webgpu runs on the same GPUs. Values go over the bus at each call, and nothing falls back to the processor.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { fail, messageOf } from "../../core/errors.ts";
import { loadOptional } from "../../core/optional.ts";
import type { GraphModel } from "../../graph/model.ts";
import type { Engine } from "../engine.ts";
import { libraryHash, type NativeRuntime, runtimeFolder, silenceTelemetry } from "./native.ts";
import { onnxRuntimeEngine } from "./onnx-runtime.ts";

/** Of the package onnxruntime-gpu of the runtime's own version; for Linux on x64 alone. */
export const cudaLibraries = ["libonnxruntime_providers_cuda.so", "libonnxruntime_providers_shared.so"];

/** Runs of the probe: a GPU whose bits do not repeat is in a class of its own. */
const probeRuns = 3;

export function hasCuda(folder = runtimeFolder()): boolean {
  return folder !== undefined && cudaLibraries.every((name) => existsSync(join(folder, name)));
}

const probe: GraphModel = {
  name: "cuda-probe",
  inputs: [{ name: "a", dtype: "float32", shape: [4] }],
  outputs: [{ name: "sum", dtype: "float32", shape: [4] }],
  nodes: [{ op: "Add", name: "sum", inputs: ["a", "a"], outputs: ["sum"], attributes: {} }],
  constants: {},
};

/** A test gives another runtime and folder. */
export async function openCudaEngine(given?: NativeRuntime, folder = runtimeFolder()): Promise<Engine> {
  silenceTelemetry();
  const runtime = given ?? (await loadOptional<NativeRuntime>("onnxruntime-node", "native", "cuda numerics"));
  const version = runtime.env.versions.node ?? "unknown";
  if (!hasCuda(folder))
    fail(
      "failed_precondition",
      `CUDA is not here: ${cudaLibraries.join(" and ")} of onnxruntime-gpu ${version} are not beside the runtime; webgpu needs nothing`,
    );
  // Products of floats in full: TF32 has ten bits of a factor.
  const provider = { name: "cuda", deviceId: 0, useTf32: 0, cudnnConvAlgoSearch: "DEFAULT" };
  const engine = onnxRuntimeEngine(
    runtime,
    { kind: "cuda", version, fileHash: () => libraryHash("with CUDA"), outputs: "copied", probeRuns },
    [provider],
    { session: { disable_cpu_ep_fallback: "1", use_deterministic_compute: "1" } },
  );
  try {
    await (await engine.load(probe)).release();
  } catch (thrown) {
    const reason = messageOf((thrown as Error).cause ?? thrown).replaceAll(/\s+/g, " ");
    fail("failed_precondition", `CUDA cannot be used: ${reason.slice(0, 300)}`);
  }
  return engine;
}
