// How many microbatches a VNode should have between forward and backward so that it need not stand still: as many as it
// computes while one goes to the end of the network and its gradient comes back. Over a home link that is more than the
// plan's distance says. What it answers changes when things happen, never what they are.

import { microbatchesInFlightMax } from "../../network/memory.ts";

/** Of the last steps. */
const waysKept = 8;
/** Of the last passes. The least of them counts: more says how long a pass stood in line for a worker. */
const passesKept = 32;

export class Pace {
  readonly #ways: number[] = [];
  readonly #forwards: number[] = [];
  readonly #backwards: number[] = [];
  #sentMs: number | undefined;
  #returnedMs = 0;

  /** Its activations go out. Only a step's first microbatch tells how long the way is: others stand in line on it. */
  sent(microbatch: number, nowMs: number): void {
    if (microbatch === 0) this.#sentMs = nowMs;
  }

  /** A gradient for it arrives; with several receivers the last one counts. */
  returned(microbatch: number, nowMs: number): void {
    if (microbatch === 0) this.#returnedMs = nowMs;
  }

  /** All of its gradients are here. */
  complete(microbatch: number): void {
    if (microbatch !== 0 || this.#sentMs === undefined) return;
    const wayMs = this.#returnedMs - this.#sentMs;
    this.#sentMs = undefined;
    // While a VNode catches up, gradients are here before their activations are sent anew.
    if (wayMs > 0) add(this.#ways, wayMs, waysKept);
  }

  computed(kind: "forward" | "backward", durationMs: number): void {
    add(kind === "forward" ? this.#forwards : this.#backwards, durationMs, passesKept);
  }

  /** 0 until measured. One more than fit into the way, so that the next is ready when the first comes back. */
  get window(): number {
    const ownMs = Math.min(...this.#forwards) + Math.min(...this.#backwards);
    if (this.#ways.length === 0 || !Number.isFinite(ownMs)) return 0;
    const wayMs = this.#ways.reduce((sum, one) => sum + one, 0) / this.#ways.length;
    return Math.min(Math.ceil(wayMs / Math.max(ownMs, 0.001)) + 1, microbatchesInFlightMax);
  }
}

function add(readings: number[], reading: number, most: number): void {
  readings.push(reading);
  if (readings.length > most) readings.shift();
}
