// Finds the portable engine's runtime in Node.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { sha256 } from "../core/hash.ts";
import type { Engine } from "./engine.ts";
import { openPortableEngine, type PortableRuntime } from "./portable.ts";

/** The file that the runtime loads by default; its hash is part of the numerics class. */
const wasmFile = "ort-wasm-simd-threaded.wasm";

let hash: Promise<string> | undefined;

export async function openPortableEngineInNode(): Promise<Engine> {
  const runtime = (await import("onnxruntime-web")) as unknown as PortableRuntime;
  return openPortableEngine(runtime, () => {
    const folder = dirname(createRequire(import.meta.url).resolve("onnxruntime-web"));
    hash ??= readFile(join(folder, wasmFile)).then((bytes) => sha256(bytes));
    return hash;
  });
}
