// Asks a peer for a sign of life while something is expected of it, and measures how far away it is on the way. A peer
// that gives none is given up, and so is a link on which nothing moves although something is to be done: VNodes could
// otherwise wait for each other in a circle while all their machines are well. Whoever misses something then asks again.

import type { Cancel, World } from "../core/world.ts";
import type { Meter } from "./meter.ts";

/** Between two pings while something is expected. */
const pingEveryMs = 2_000;
/** A peer without an answer for so long is gone, or might as well be. */
const silenceMsMax = 10_000;
/** Pings stand in line behind parcels: so slow a way is taken for granted until it is measured. */
const slowBytesPerSecond = 256 << 10;
/** Nothing slower is waited for: what was measured while a clock leapt or a machine stood still may be next to nothing. */
const slowestBytesPerSecond = 32 << 10;
/** A busy moment is no silence. */
const slack = 4;

export interface LifeSigns {
  /** Whether anything is to be sent, or expected of the peer. */
  isBusy(): boolean;
  /** For how long what is to be sent has not got on. */
  stillMs(): number;
  /** False if nobody can be asked now. */
  ping(id: bigint): boolean;
  /** The peer has given no sign of life for too long, or the link stands still. */
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
    const sentMs = this.#world.clock.monotonicMs();
    this.#pinged = { id, sentMs };
    if (!this.#signs.ping(id)) this.#pinged = undefined;
  }

  #arm(): void {
    this.#cancel ??= this.#world.timers.after(pingEveryMs, () => {
      this.#cancel = undefined;
      this.#look();
    });
  }

  #look(): void {
    const waitedMs = this.#pinged ? this.#world.clock.monotonicMs() - this.#pinged.sentMs : 0;
    if (Math.max(waitedMs, this.#signs.stillMs()) > this.patienceMs(this.#meter.outstandingBytes)) {
      this.#signs.lost();
      return;
    }
    if (!this.#signs.isBusy() && this.#pinged === undefined) return;
    if (this.#pinged === undefined) this.#ping();
    this.#arm();
  }

  /** For how long nothing may be heard while so many bytes are under way. */
  patienceMs(bytes: number): number {
    const rate = Math.max(this.#meter.bytesPerSecond || slowBytesPerSecond, slowestBytesPerSecond);
    const wayMs = (bytes / rate) * 1_000;
    return silenceMsMax + slack * wayMs;
  }
}
