// Starts production orchestrators and PNodes on simulated hosts. What a process keeps on its disk survives its
// crash here; everything else it has to find again by itself.

import type { SimulatedBlobs } from "./blobs.ts";
import type { Fabric } from "./network.ts";
import type { SimulatedStore } from "./store.ts";
import type { SimulatedWorld } from "./world.ts";

export interface Site {
  readonly world: SimulatedWorld;
  readonly fabric: Fabric;
  readonly store: SimulatedStore;
  readonly blobs: SimulatedBlobs;
  /** Of all orchestrators. */
  readonly addresses: readonly string[];
  readonly computeMs: number;
  readonly mutant: string | undefined;
  /** What survives a crash, by host. */
  readonly disks: Map<string, Map<string, Uint8Array>>;
  /** How to ask a PNode to leave, by host. */
  readonly leaves: Map<string, () => void>;
}

export function addressOf(name: string): string {
  return `${name}.test:7400`;
}

export function startHost(site: Site, name: string): void {
  site.world.start(name);
}
