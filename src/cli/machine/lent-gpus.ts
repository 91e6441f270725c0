// Which GPUs a machine lends, and how they round. Both are found out by programs that a confined process cannot start, so before it is
// confined; and by one that a bad driver may take down with it. What was found is kept in the PNode's directory.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { DcnrError, messageOf } from "../../core/errors.ts";
import { hasCuda, openCudaEngine } from "../../engine/onnx/cuda.ts";
import { Remembered } from "../../system/files/remembered.ts";
import type { GpuFacts } from "../../system/machine/gpus.ts";
import { findHardware } from "../../system/machine/hardware.ts";
import { presenceOf } from "./additions.ts";
import { softwareVersion } from "./software.ts";

/** `auto`: those that the system knows. `any`: whatever the runtime finds, drivers in software too. `off`: none. */
export type GpuLending = "auto" | "any" | "off";
export const gpuLendings: readonly GpuLending[] = ["auto", "any", "off"];

export interface LentGpus {
  readonly gpus: readonly GpuFacts[];
  /** Of the engine webgpu; absent where it does not run. */
  readonly class?: string;
  /** It gives the bits of exact numerics too, and computes those sessions instead of the processor. */
  readonly exact?: boolean;
  /** Of the engine cuda, where its libraries were added. */
  readonly cuda?: string;
  /** Why it does not, if it should. */
  readonly trouble?: string;
}

/** Compiling the probe takes a second or two on a GPU, and half a minute in software on a busy machine. */
const probeTimeoutMs = 300_000;

/** Looks, and remembers it for a process that cannot look. */
export async function findLentGpus(directory: string, lending: GpuLending): Promise<LentGpus> {
  const { gpus } = lending === "off" ? { gpus: [] } : await findHardware(directory);
  const found: LentGpus = { gpus, ...(await classOf(directory, gpus, lending)) };
  await rememberedGpus(directory).set(found);
  return found;
}

export function rememberedGpus(directory: string): Remembered<LentGpus> {
  return new Remembered(directory, "gpus.json", `${process.arch} with classes and exact`);
}

type Found = Pick<LentGpus, "class" | "exact" | "cuda" | "trouble">;

async function classOf(directory: string, gpus: readonly GpuFacts[], lending: GpuLending): Promise<Found> {
  if (lending === "off" || (lending === "auto" && gpus.length === 0) || presenceOf("native") === "not here") return {};
  const adapters = gpus.map(({ vendor, model, driver = "" }) => `${vendor} ${model} ${driver}`);
  const chosen = Object.entries(process.env).filter(([name]) => /^(VK_|MESA_)/.test(name));
  const key = [softwareVersion(), "exact", String(hasCuda()), process.arch, ...adapters, JSON.stringify(chosen)].join(
    "|",
  );
  const memory = new Remembered<Found>(directory, "webgpu.json", key);
  const known = await memory.get();
  if (known !== undefined) return known;
  try {
    // Engines are loaded where there is a GPU alone.
    const { exactClass } = await import("../../engine/exact/engine.ts");
    const { shortClass } = await import("../../engine/fingerprint.ts");
    const [own = "", exact, cuda] = (await probe()).split(" ");
    const kinds = { class: shortClass("webgpu", [own, ...adapters]), exact: exact === exactClass };
    return await memory.set(cuda ? { ...kinds, cuda: shortClass("cuda", [cuda, ...adapters]) } : kinds);
  } catch (thrown) {
    return { trouble: messageOf(thrown) };
  }
}

/** The classes of the engine, of exact numerics on it, and of CUDA if there is one, found out by a process of its own. */
async function probe(): Promise<string> {
  const script = fileURLToPath(import.meta.url);
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [script], { timeout: probeTimeoutMs });
    return stdout.trim();
  } catch (thrown) {
    const { stdout = "", signal } = thrown as { stdout?: string; signal?: string };
    throw new DcnrError("failed_precondition", stdout.trim() || `the GPU's driver ended the program (${signal})`);
  }
}

/** Empty where CUDA is not here; what is wrong with one that is goes to the owner's terminal. */
async function cudaClass(): Promise<string> {
  if (!hasCuda()) return "";
  try {
    return await (await openCudaEngine()).numericsClass();
  } catch (thrown) {
    process.stderr.write(`${messageOf(thrown)}\n`);
    return "";
  }
}

if (import.meta.main) {
  try {
    const { openExactOn } = await import("../../engine/exact/webgpu.ts");
    const { openWebgpuEngine } = await import("../../engine/webgpu/engine.ts");
    const engine = await openWebgpuEngine();
    const own = await engine.numericsClass();
    const exact = await openExactOn(engine)
      .numericsClass()
      .catch(() => "");
    process.stdout.write(`${own} ${exact} ${await cudaClass()}`);
  } catch (thrown) {
    process.stdout.write(messageOf(thrown));
    process.exitCode = 1;
  }
}
