// Which GPUs a machine lends, and how they round. Both are found out by programs that a confined process cannot start, so before it is
// confined; and by one that a bad driver may take down with it. What was found is kept in the PNode's directory.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { messageOf } from "../../core/errors.ts";
import { moduleBeside } from "../../core/module-beside.ts";
import { hasCuda } from "../../engine/onnx/cuda.ts";
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
  /** Its speed, in billions of operations in a second. */
  readonly gflops?: number;
  /** It gives the bits of exact numerics too, and computes those sessions instead of the processor. */
  readonly exact?: boolean;
  /** Of the engine cuda, where its libraries were added. */
  readonly cuda?: string;
  /** Why webgpu does not run, if it should. */
  readonly trouble?: string;
  /** Why CUDA does not, where its libraries were added. */
  readonly cudaTrouble?: string;
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
  return new Remembered(directory, "gpus.json", `${process.arch} with classes, exact and speed`);
}

type Found = Omit<LentGpus, "gpus">;

/** What a process of its own found out; classes are those of engines, not yet of adapters. */
export interface Probed {
  readonly webgpu?: string;
  readonly gflops?: number;
  readonly exact?: string;
  readonly cuda?: string;
  readonly trouble?: string;
  readonly cudaTrouble?: string;
}

async function classOf(directory: string, gpus: readonly GpuFacts[], lending: GpuLending): Promise<Found> {
  if (lending === "off" || (lending === "auto" && gpus.length === 0) || presenceOf("native") === "not here") return {};
  const adapters = gpus.map(({ vendor, model, driver = "" }) => `${vendor} ${model} ${driver}`);
  const chosen = Object.entries(process.env).filter(([name]) => /^(VK_|MESA_)/.test(name));
  const key = [
    softwareVersion(),
    "exact and speed",
    String(hasCuda()),
    process.arch,
    ...adapters,
    JSON.stringify(chosen),
  ];
  const memory = new Remembered<Found>(directory, "webgpu.json", key.join("|"));
  const known = await memory.get();
  if (known !== undefined) return known;
  const found = await lentBy(await probe(), adapters);
  // A driver that is mended is looked at again.
  return found.trouble === undefined && found.cudaTrouble === undefined ? memory.set(found) : found;
}

/** Either engine is lent without the other: servers with CUDA often have no Vulkan. */
export async function lentBy(
  { webgpu, gflops = 0, exact, cuda, ...troubles }: Probed,
  adapters: readonly string[],
): Promise<Found> {
  // Engines are loaded where there is a GPU alone.
  const { exactClass } = await import("../../engine/exact/engine.ts");
  const { shortClass } = await import("../../engine/fingerprint.ts");
  return {
    ...(webgpu && { class: shortClass("webgpu", [webgpu, ...adapters]), gflops, exact: exact === exactClass }),
    ...(cuda && { cuda: shortClass("cuda", [cuda, ...adapters]) }),
    ...troubles,
  };
}

async function probe(): Promise<Probed> {
  const script = fileURLToPath(moduleBeside("./probes/ask-gpus.ts", import.meta.url));
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [script], { timeout: probeTimeoutMs });
    return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Probed;
  } catch (thrown) {
    const { signal, code } = thrown as { signal?: string; code?: unknown };
    return { trouble: `the GPU's driver ended the program (${signal ?? code ?? messageOf(thrown)})` };
  }
}
