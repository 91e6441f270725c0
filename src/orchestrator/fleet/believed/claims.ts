// What a PNode says about itself, checked: values out of all bounds are refused, values that measurement
// contradicts are kept visible as warnings and not counted on.

import { fail } from "../../../core/errors.ts";
import { wholeOf } from "../../../core/whole.ts";
import { threeDigits } from "../../../core/words/sentences.ts";
import type { Capabilities, Limits } from "../../../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { PNodeFacts, PNodeLimits } from "../../records/machines.ts";

/** Larger machines exist in one piece hardly anywhere; beyond it a claim is an error of the PNode. */
const coresMax = 4_096;
const gpusListedMax = 4_096;
const numericsMax = 16;
const textMax = 200;
/** More GPUs than one machine holds must show in its measured speed. */
const gpusPerMachineUsual = 16;
const gflopsPerGpuLeast = 50;
/** The fastest cores of today reach about 200. */
const gflopsPerCoreMost = 500;

export function factsOf(capabilities: Capabilities | undefined): PNodeFacts {
  if (!capabilities) fail("invalid_argument", "the registration has no capabilities: send them");
  if (capabilities.cores > coresMax)
    fail("invalid_argument", `${capabilities.cores} cores: at most ${coresMax} are believed`);
  if (capabilities.gpus.length > gpusListedMax)
    fail("invalid_argument", `${capabilities.gpus.length} GPUs: at most ${gpusListedMax} may be listed`);
  return {
    cpuModel: text(capabilities.cpuModel),
    cores: Math.max(1, capabilities.cores),
    memoryBytes: wholeOf(capabilities.memoryBytes),
    diskBytes: wholeOf(capabilities.diskBytes),
    architecture: text(capabilities.architecture),
    platform: text(capabilities.platform),
    gpus: capabilities.gpus.map((gpu) => ({
      model: text(gpu.model),
      memoryBytes: wholeOf(gpu.memoryBytes),
      vendor: text(gpu.vendor),
      ...(gpu.driver && { driver: text(gpu.driver) }),
    })),
    gflops: positive(capabilities.gflops),
    numerics: numericsOf(capabilities.numerics),
    bandwidthBytesPerSecond: positive(capabilities.bandwidthBytesPerSecond),
    latencyMs: positive(capabilities.latencyMs),
  };
}

export function numericsOf(claimed: readonly { readonly engine: string; readonly class: string }[]) {
  if (claimed.length > numericsMax) fail("invalid_argument", `more than ${numericsMax} numerics classes`);
  return claimed.map((one) => ({ engine: text(one.engine), class: text(one.class) }));
}

export function limitsOf(limits: Limits | undefined): PNodeLimits {
  return {
    cpus: positive(limits?.cpus ?? 0),
    memoryBytes: wholeOf(limits?.memoryBytes ?? 0n),
    diskBytes: wholeOf(limits?.diskBytes ?? 0n),
    bandwidthBytesPerSecond: wholeOf(limits?.bandwidthBytesPerSecond ?? 0n),
    hours: text(limits?.hours ?? ""),
  };
}

/** What cannot be true; the facts without it, and a sentence for each. */
export function plausible(facts: PNodeFacts): { facts: PNodeFacts; warnings: string[] } {
  const warnings: string[] = [];
  let believed = facts;
  const { gpus, gflops, cores } = facts;
  if (gpus.length > gpusPerMachineUsual && gflops < gpus.length * gflopsPerGpuLeast) {
    warnings.push(`claims ${gpus.length} GPUs but measures ${Math.round(gflops)} GFLOP/s: none of them is counted`);
    believed = { ...believed, gpus: [] };
  }
  if (gpus.length === 0 && gflops > cores * gflopsPerCoreMost) {
    const most = cores * gflopsPerCoreMost;
    warnings.push(`claims ${Math.round(gflops)} GFLOP/s on ${cores} cores: ${most} are counted`);
    believed = { ...believed, gflops: most };
  }
  return { facts: believed, warnings };
}

/** A claim this many times above what its work shows is not believed any more. */
const observedFactor = 8;

/** A warning if what a PNode's own work shows contradicts its claimed speed. */
export function contradictedSpeed(claimedGflops: number, observedGflops: number): string | undefined {
  if (observedGflops <= 0 || claimedGflops <= observedGflops * observedFactor) return undefined;
  return `claims ${Math.round(claimedGflops)} GFLOP/s, its work shows ${threeDigits(observedGflops)}: the latter counts`;
}

export function text(value: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not reach a terminal.
  return value.slice(0, textMax).replace(/[\u0000-\u001f\u007f]/g, " ");
}

function positive(value: number): number {
  return Number.isFinite(value) && value > 0 ? value : 0;
}
