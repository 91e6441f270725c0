import { deepEqual, equal, rejects } from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { cudaLibraries, hasCuda, openCudaEngine } from "./cuda.ts";
import type { NativeRuntime } from "./native.ts";

/** A runtime that notes how sessions are opened, and opens none where a library is missing. */
function fakeRuntime(missing?: string) {
  const asked: Record<string, unknown>[] = [];
  const runtime = {
    env: { versions: { node: "1.30.0" } },
    Tensor: class {},
    InferenceSession: {
      create: async (_model: Uint8Array, options: Record<string, unknown>) => {
        asked.push(options);
        if (missing) throw new Error(`Failed to load library\n  ${missing}: cannot open shared object file`);
        return { release: async () => {} };
      },
    },
  };
  return { runtime: runtime as unknown as NativeRuntime, asked };
}

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "dcnr-cuda-"));
});
after(() => rm(folder, { recursive: true, force: true }));

test("without its libraries CUDA is not found, and a sentence says which are missing", async () => {
  await writeFile(join(folder, cudaLibraries[0] as string), "");
  equal(hasCuda(folder), false);
  equal(hasCuda(undefined), false);
  await rejects(openCudaEngine(fakeRuntime().runtime, folder), {
    code: "failed_precondition",
    message: /CUDA is not here: .*providers_shared\.so of onnxruntime-gpu 1\.30\.0 are not beside the runtime/,
  });
});

test("with them it is used: whole on the GPU, in full precision, with deterministic kernels", async () => {
  for (const name of cudaLibraries) await writeFile(join(folder, name), "");
  equal(hasCuda(folder), true);
  const { runtime, asked } = fakeRuntime();
  const engine = await openCudaEngine(runtime, folder);
  equal(engine.kind, "cuda");
  const [{ executionProviders, extra } = {}] = asked;
  deepEqual(executionProviders, [{ name: "cuda", deviceId: 0, useTf32: 0, cudnnConvAlgoSearch: "DEFAULT" }]);
  deepEqual(extra, { session: { disable_cpu_ep_fallback: "1", use_deterministic_compute: "1" } });
});

test("what CUDA itself lacks is said in one sentence", async () => {
  await rejects(openCudaEngine(fakeRuntime("libcublasLt.so.13").runtime, folder), {
    code: "failed_precondition",
    message: "CUDA cannot be used: Failed to load library libcublasLt.so.13: cannot open shared object file",
  });
});
