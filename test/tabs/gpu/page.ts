// What the browser runs for tests of its GPU: the engine of src/engine/wgsl, driven by tests in Node, and a small training by an executor
// on it.

import { type Tensor, viewData } from "../../../src/core/tensor.ts";
import type { Program } from "../../../src/engine/engine.ts";
import { openInlineExecutor } from "../../../src/engine/executor.ts";
import { openPortableEngine } from "../../../src/engine/portable/engine.ts";
import { openWgslEngine, type WgslEngine } from "../../../src/engine/wgsl/engine.ts";
import { train } from "../../../src/vnode/training-run.testing.ts";
import type { Drive, PackedModel, PackedTensor, Trained } from "./remote.ts";

declare global {
  interface Window {
    gpuEngine: Drive;
  }
}

function unpacked({ dtype, shape, bytes }: PackedTensor): Tensor {
  return {
    dtype,
    shape,
    data: viewData(
      dtype,
      Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0)),
    ),
  };
}

function packed({ dtype, shape, data }: Tensor): PackedTensor {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return { dtype, shape, bytes: btoa(letters) };
}

const mapped = <A, B>(record: Readonly<Record<string, A>>, change: (value: A) => B) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));

let engine: WgslEngine | undefined;
const programs: (Program | undefined)[] = [];

window.gpuEngine = {
  async open() {
    if (!(await navigator.gpu?.requestAdapter())) return "";
    engine = await openWgslEngine({ gpu: navigator.gpu, browser: "a test" });
    return engine.adapter;
  },
  load: async ({ model, constants }: PackedModel) =>
    programs.push(await (engine as WgslEngine).load({ ...model, constants: mapped(constants, unpacked) })) - 1,
  async run(program, feeds) {
    return mapped(await (programs[program] as Program).run(mapped(feeds, unpacked)), packed);
  },
  async release(program) {
    await programs[program]?.release();
    programs[program] = undefined;
  },
  numericsClass: () => (engine as WgslEngine).numericsClass(),
  memoryBytes: async () => (engine as WgslEngine).device.memoryBytes,
  async train(text, on): Promise<Trained> {
    const own =
      on === "webgpu" ? await openWgslEngine({ gpu: navigator.gpu, browser: "a test" }) : openPortableEngine();
    const executor = openInlineExecutor(own);
    const { losses, hashes } = await train(text, 1, executor);
    await executor.close();
    return { losses: [...losses], hashes: [...hashes] };
  },
  async lose() {
    const lost = await openWgslEngine({ gpu: navigator.gpu, browser: "a test" });
    const executor = openInlineExecutor(lost);
    const info = { name: "x", dtype: "float32" as const, shape: [2] };
    const nodes = [{ op: "Neg", name: "y", inputs: ["x"], outputs: ["y"], attributes: {} }];
    const graph = { name: "minus", inputs: [info], outputs: [{ ...info, name: "y" }], nodes, constants: {} };
    executor.register("minus", graph);
    const run = () => executor.run("minus", { x: { dtype: "float32", shape: [2], data: Float32Array.of(1, 2) } });
    await run();
    lost.device.takeAway();
    const said = await run().then(String, (error: Error) => error.message);
    return [said, await run().then(String, (error: Error) => error.message)];
  },
  close: async () => engine?.close(),
};
