// Asks a peer for a sign of life while something is expected of it, and measures how far away it is on the way. A peer
// that gives none is given up: a stream that stands still would otherwise be waited for as long as it stays open.

import type { Cancel, World } from "../core/world.ts";
import type { Meter } from "./meter.ts";

/** Between two pings while something is expected. */
const pingEveryMs = 2_000;
/** A peer without an answer for so long is gone, or might as well be. */
const silenceMsMax = 10_000;
/** Pings stand in line behind parcels: so slow a way is taken for granted until it is measured. */
const slowBytesPerSecond = 256 << 10;
/** A busy moment is no silence. */
const slack = 4;

export interface LifeSigns {
  /** Whether anything is expected of the peer. */
  isBusy(): boolean;
  ping(id: bigint): void;
  /** The peer has given no sign of life for too long. */
  lost(): void;
}

export class PeerWatch {
  readonly #world: World;
  readonly #meter: Meter;
  readonly #signs: LifeSigns;
  #pinged: { readonly id: bigint; readonly sentMs: number } | undefined;
  #nextId = 0n;
  #cancel: Cancel | undefined;

  constructor(world: World, meter: Meter, signs: LifeSigns) {
    this.#world = world;
    this.#meter = meter;
    this.#signs = signs;
  }

  /** A new stream: the first ping goes ahead of everything, so that it measures the way alone. */
  opened(): void {
    this.#pinged = undefined;
    this.#ping();
    this.#arm();
  }

  /** Something is expected from now on. */
  begin(): void {
    this.#arm();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#pinged = undefined;
  }

  pong(id: bigint): void {
    if (this.#pinged?.id !== id) return;
    this.#meter.pong(this.#world.clock.monotonicMs() - this.#pinged.sentMs);
    this.#pinged = undefined;
  }

  #ping(): void {
    const id = this.#nextId++;
    this.#pinged = { id, sentMs: this.#world.clock.monotonicMs() };
    this.#signs.ping(id);
  }

  #arm(): void {
    this.#cancel ??= this.#world.timers.after(pingEveryMs, () => {
      this.#cancel = undefined;
      this.#look();
    });
  }

  #look(): void {
    const waitedMs = this.#pinged && this.#world.clock.monotonicMs() - this.#pinged.sentMs;
    if (waitedMs !== undefined && waitedMs > this.#patienceMs()) {
      this.#signs.lost();
      return;
    }
    if (!this.#signs.isBusy() && this.#pinged === undefined) return;
    if (this.#pinged === undefined) this.#ping();
    this.#arm();
  }

  #patienceMs(): number {
    const { outstandingBytes, bytesPerSecond } = this.#meter;
    const wayMs = (outstandingBytes / (bytesPerSecond || slowBytesPerSecond)) * 1_000;
    return silenceMsMax + slack * wayMs;
  }
}
