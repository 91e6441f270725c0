// onnxruntime-web as an engine, in this thread: what the portable engine is compared with. Not part of the product.

import type { Executor } from "../src/engine/engine.ts";
import { openInlineExecutor } from "../src/engine/executor.ts";
import { type OnnxRuntime, onnxRuntimeEngine } from "../src/engine/onnx/onnx-runtime.ts";

interface WebRuntime extends OnnxRuntime {
  readonly env: { readonly wasm: { numThreads?: number; proxy?: boolean } };
}

export async function openWebExecutor(): Promise<Executor> {
  const runtime = (await import("onnxruntime-web")) as unknown as WebRuntime;
  runtime.env.wasm.numThreads = 1;
  runtime.env.wasm.proxy = false;
  const identity = { kind: "portable" as const, version: "", fileHash: async () => "", outputs: "copied" as const };
  return openInlineExecutor(onnxRuntimeEngine(runtime, identity, ["wasm"]));
}
