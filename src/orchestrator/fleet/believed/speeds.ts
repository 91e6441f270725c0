// How fast PNodes really are, learned from the steps they compute and kept up to date: a machine that is measured once,
// at a busy moment or by itself, says little about what it does today.

import { Recent } from "../../../core/caches/recent.ts";
import type { PNodeId } from "../../../core/ids.ts";

interface Speed {
  /** Smoothed, of one core. */
  readonly gflopsPerCore: number;
  readonly observations: number;
}

/** Fewer may all have met a busy moment. */
const observationsLeast = 3;
/** The weight of a new observation: half of the past is forgotten after about six. */
const weight = 0.1;
const pnodesMax = 100_000;

export class Speeds {
  readonly #speeds = new Recent<PNodeId, Speed>(pnodesMax);

  /** One heartbeat's fastest VNode. */
  observe(pnode: PNodeId, gflopsPerCore: number): void {
    const known = this.#speeds.get(pnode);
    const observations = (known?.observations ?? 0) + 1;
    // A mean at first, so that the very first observation has no more weight than those after it.
    const share = Math.max(weight, 1 / observations);
    const before = known?.gflopsPerCore ?? 0;
    this.#speeds.set(pnode, { gflopsPerCore: before + share * (gflopsPerCore - before), observations });
  }

  /** GFLOP/s of one core; undefined until enough work was seen. */
  of(pnode: PNodeId): number | undefined {
    const known = this.#speeds.get(pnode);
    return known !== undefined && known.observations >= observationsLeast ? known.gflopsPerCore : undefined;
  }
}
