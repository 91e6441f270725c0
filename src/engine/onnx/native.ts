// The fast engine: ONNX Runtime's native build on the CPU. Its bits repeat within one numerics class.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { findOptional, loadOptional } from "../../core/optional.ts";
import type { GraphModel } from "../../graph/model.ts";
import { encodeOnnx } from "../../graph/onnx.ts";
import type { Engine } from "../engine.ts";
import { sharedMemory } from "../kernels/kernels.ts";
import { directSessions, type OpenDirect } from "./direct.ts";
import { type OnnxRuntime, type OutputHandling, onnxRuntimeEngine } from "./onnx-runtime.ts";
import { isOnlyUnread, unreadOutput, withUnreadOutput } from "./unread-outputs.ts";

export interface NativeRuntime extends OnnxRuntime {
  readonly env: { readonly versions: { readonly node?: string } };
  /** What it was built with, bundled or not. */
  readonly listSupportedBackends?: () => readonly { readonly name: string }[];
}

/** The library reads it when it loads, and would otherwise write a device id and call home. */
export function silenceTelemetry(): void {
  process.env["ORT_DISABLE_TELEMETRY"] = "1";
}

/** Whether the runtime's package is there. */
export function hasNativeEngine(): boolean {
  return findOptional("onnxruntime-node", "native") !== undefined;
}

/** `folder`: for files that live as long as weights are loaded. */
export async function openNativeEngine(folder?: string): Promise<Engine> {
  silenceTelemetry();
  const runtime = await loadOptional<NativeRuntime>("onnxruntime-node", "native", "native numerics");
  const identity = {
    kind: "native" as const,
    version: runtime.env.versions.node ?? "unknown",
    fileHash: () => libraryHash(),
    outputs: await outputHandling(runtime),
    folder,
  };
  const direct = await workingDirect(runtime);
  return onnxRuntimeEngine(direct ? { ...runtime, direct } : runtime, identity, ["cpu"]);
}

const probe: GraphModel = {
  name: "in-place-probe",
  inputs: [{ name: "a", dtype: "float32", shape: [4] }],
  outputs: [{ name: "sum", dtype: "float32", shape: [4] }],
  nodes: [{ op: "Add", name: "sum", inputs: ["a", "a"], outputs: ["sum"], attributes: {} }],
  constants: {},
};

/**
 * That the runtime takes views of shared memory as inputs and writes outputs into them is not documented, so it is tried
 * at every start; where it fails, outputs are copied.
 */
async function outputHandling(runtime: OnnxRuntime): Promise<OutputHandling> {
  for (const handling of ["unread", "written"] as const) if (await writes(runtime, handling)) return handling;
  return "copied";
}

async function writes(runtime: OnnxRuntime, handling: "unread" | "written"): Promise<boolean> {
  const unread = handling === "unread";
  const model = encodeOnnx(probe);
  const session = await runtime.InferenceSession.create(unread ? withUnreadOutput(model) : model, {});
  const memory = sharedMemory(32).buffer;
  const [a, sum] = [new Float32Array(memory, 0, 4), new Float32Array(memory, 16, 4)];
  a.set([1, 2, 3, 4]);
  const tensor = (data: Float32Array) => new runtime.Tensor("float32", data as Float32Array<ArrayBuffer>, [4]);
  try {
    await session.run({ a: tensor(a) }, { ...(unread && { [unreadOutput]: null }), sum: tensor(sum) });
    return !unread && sum.join() === "2,4,6,8";
  } catch (thrown) {
    return unread && isOnlyUnread(thrown) && sum.join() === "2,4,6,8";
  } finally {
    await session.release();
  }
}

async function workingDirect({ Tensor }: OnnxRuntime): Promise<OpenDirect | undefined> {
  const direct = directSessions();
  try {
    const session = direct?.(encodeOnnx(probe), {});
    const results = await session?.run({ a: new Tensor("float32", Float32Array.of(1, 2, 3, 4), [4]) }, { sum: null });
    await session?.release();
    return results?.["sum"]?.data.join() === "2,4,6,8" ? direct : undefined;
  } catch {
    return undefined;
  }
}

/** Where its machine code lies; undefined if it is not here. */
export function runtimeFolder(): string | undefined {
  const description = findOptional("onnxruntime-node/package.json", "native");
  return description && join(dirname(description), "bin", "napi-v6", process.platform, process.arch);
}

const hashes = new Map<string, Promise<string>>();

/**
 * The files with machine code, in the order of their names. Read once per process. What an owner has put beside them for CUDA counts
 * for CUDA alone: it changes no bit of the others.
 */
export function libraryHash(of: "alone" | "with CUDA" = "alone"): Promise<string> {
  const known = hashes.get(of);
  if (known !== undefined) return known;
  const hash = (async () => {
    const folder = runtimeFolder() ?? "";
    const digest = createHash("sha256");
    for (const name of (await readdir(folder)).sort())
      if (name.includes("onnxruntime") && (of === "with CUDA" || !name.includes("onnxruntime_providers_")))
        for await (const chunk of createReadStream(join(folder, name))) digest.update(chunk);
    return digest.digest("hex");
  })();
  hashes.set(of, hash);
  return hash;
}
