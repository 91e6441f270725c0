// Opens an engine by its name. Each is imported only when asked for: the native one loads a large library.

import type { Engine, EngineKind } from "./engine.ts";
import type { PortableOptions } from "./portable/engine.ts";

/**
 * `memory`: one that the engine shall share with an executor; the portable one and the exact one on it do. `folder`: for files that live no
 * longer than the process; the native one has a use for it.
 */
export async function openEngine(kind: EngineKind, memory?: WebAssembly.Memory, folder?: string): Promise<Engine> {
  switch (kind) {
    case "reference":
      return (await import("./reference.ts")).openReferenceEngine();
    case "native":
      return (await import("./onnx/native.ts")).openNativeEngine(folder);
    case "portable":
      return (await import("./portable/engine.ts")).openPortableEngine(await portableOptions(memory));
    case "cuda":
      return (await import("./onnx/cuda.ts")).openCudaEngine();
    case "exact":
      return (await import("./exact/engine.ts")).openExactEngine(await portableOptions(memory));
    case "exact-webgpu":
      return (await import("./exact/webgpu.ts")).openExactWebgpuEngine(testing());
    case "webgpu":
      return (await import("./webgpu/engine.ts")).openWebgpuEngine(testing());
  }
}

async function portableOptions(memory?: WebAssembly.Memory): Promise<PortableOptions> {
  const [{ LinearMemory }, { widenVectors }] = await Promise.all([
    import("./portable/linear-memory.ts"),
    import("./kernels/wide-vectors.ts"),
  ]);
  return { memory: new LinearMemory(memory), tile: widenVectors() };
}

/** Tests take a device away from a process that they have started. */
function testing(): { lostAfter?: number } {
  const runs = process.env["DCNR_TEST_GPU_LOST_AFTER"];
  return runs === undefined ? {} : { lostAfter: Number(runs) };
}
