// Opens an engine by its name. Each is imported only when asked for: the native one loads a large library.

import type { Engine, EngineKind } from "./engine.ts";

/** `memory`: one that the engine shall share with an executor; only the portable one does. */
export async function openEngine(kind: EngineKind, memory?: WebAssembly.Memory): Promise<Engine> {
  switch (kind) {
    case "reference":
      return (await import("./reference.ts")).openReferenceEngine();
    case "native":
      return (await import("./onnx/native.ts")).openNativeEngine();
    case "portable":
      return openPortable(memory);
    case "webgpu":
      return (await import("./webgpu/engine.ts")).openWebgpuEngine(testing());
  }
}

async function openPortable(memory?: WebAssembly.Memory): Promise<Engine> {
  const [{ openPortableEngine }, { LinearMemory }, { widenVectors }] = await Promise.all([
    import("./portable/engine.ts"),
    import("./portable/linear-memory.ts"),
    import("./kernels/wide-vectors.ts"),
  ]);
  return openPortableEngine({ memory: new LinearMemory(memory), tile: widenVectors() });
}

/** Tests take a device away from a process that they have started. */
function testing(): { lostAfter?: number } {
  const runs = process.env["DCNR_TEST_GPU_LOST_AFTER"];
  return runs === undefined ? {} : { lostAfter: Number(runs) };
}
