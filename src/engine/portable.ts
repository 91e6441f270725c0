// The engine with the same bits on every machine: ONNX Runtime's WebAssembly build on one thread. The runtime is handed
// in, so that this file loads in browsers; portable-node.ts finds it in Node.

import type { Engine } from "./engine.ts";
import { type OnnxRuntime, onnxRuntimeEngine } from "./onnx-runtime.ts";

export interface PortableRuntime extends OnnxRuntime {
  readonly env: {
    readonly versions: { readonly web?: string };
    readonly wasm: { numThreads?: number; proxy?: boolean };
  };
}

/** `fileHash`: SHA-256 of the .wasm file that the runtime loads. */
export function openPortableEngine(runtime: PortableRuntime, fileHash: () => Promise<string>): Engine {
  runtime.env.wasm.numThreads = 1;
  runtime.env.wasm.proxy = false;
  const identity = {
    kind: "portable" as const,
    version: runtime.env.versions.web ?? "unknown",
    fileHash,
    outputs: "copied" as const,
  };
  return onnxRuntimeEngine(runtime, identity, ["wasm"]);
}
