// What the browser runs: the portable engine with its own build of the runtime, and the same training as in Node.

import * as runtime from "onnxruntime-web/wasm";
import { openPortableEngine, type PortableRuntime } from "../../src/engine/portable.ts";
import { hashesOfTraining } from "./training.ts";

declare global {
  interface Window {
    train: () => Promise<string[]>;
  }
}

window.train = () => {
  const portable = runtime as unknown as PortableRuntime & { env: { wasm: { wasmPaths?: string } } };
  portable.env.wasm.wasmPaths = "/runtime/";
  return hashesOfTraining(openPortableEngine(portable, async () => "not asked for here"));
};
