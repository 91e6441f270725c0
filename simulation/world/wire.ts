// How bytes get from one simulated host to another: delay, order, partitions and loss. It knows hosts and
// directions, nothing of calls and streams (network.ts) nor of what the bytes mean.

import type { SeededChance } from "./chance.ts";
import type { Host, SimulatedWorld } from "./world.ts";

/** Chances per message unless said otherwise; all zero in an undisturbed run. */
export interface WireFaults {
  /** Of a message being lost: its stream or call breaks, as TCP's would. */
  loss: number;
  /** Of a call's request being delivered twice. */
  duplicate: number;
  /** Of a call's reply being lost after the handler ran. */
  replyLost: number;
  /** Of a message taking `spikeMs` longer; messages of one stream stay in order, streams overtake each other. */
  spike: number;
  spikeMs: number;
  /** Of a message between PNodes being the last that its stream carries that way, though the stream stays open. */
  hang: number;
}

export const noWireFaults: WireFaults = { loss: 0, duplicate: 0, replyLost: 0, spike: 0, spikeMs: 0, hang: 0 };

const strikeNames = {
  loss: "message lost",
  duplicate: "call duplicated",
  replyLost: "reply lost",
  hang: "stream hangs",
} as const;

/** How often a blocked message tries again. */
const retryMs = 100;

export interface WireOptions {
  readonly delayMs?: number;
  readonly stallMs?: number;
  /** Of each host's line, as homes have one. */
  readonly bytesPerMs?: number | undefined;
}

export class Wire {
  readonly world: SimulatedWorld;
  readonly chance: SeededChance;
  faults: WireFaults = noWireFaults;
  /** One-way delay between two hosts, before jitter. */
  readonly delayMs: number;
  /** After this long without getting through, a connection counts as broken. */
  readonly stallMs: number;
  /** What a host can send in all; undefined: without bound. */
  readonly #bytesPerMs: number | undefined;
  /** By host: until when its line is busy with what it has sent already. */
  readonly #busyUntilMs = new Map<string, number>();
  readonly #blocked = new Map<string, number>();

  constructor(world: SimulatedWorld, options: WireOptions = {}) {
    this.world = world;
    this.chance = world.chance;
    this.delayMs = options.delayMs ?? 2;
    this.stallMs = options.stallMs ?? 6_000;
    this.#bytesPerMs = options.bytesPerMs;
  }

  /** Stops everything from one host to another, in that direction only, until `unblock`. Blocks nest. */
  block(from: string, to: string): void {
    const key = `${from}>${to}`;
    this.#blocked.set(key, (this.#blocked.get(key) ?? 0) + 1);
  }

  /** Everybody reaches everybody. */
  get isWhole(): boolean {
    return this.#blocked.size === 0;
  }

  unblock(from: string, to: string): void {
    const key = `${from}>${to}`;
    const count = (this.#blocked.get(key) ?? 0) - 1;
    if (count > 0) this.#blocked.set(key, count);
    else this.#blocked.delete(key);
  }

  isBlocked(from: Host, to: Host): boolean {
    return this.#blocked.size > 0 && this.#blocked.has(`${from.name}>${to.name}`);
  }

  /** The delay of one message, with jitter, spikes and the slowness of either end. */
  delay(from: Host, to: Host): number {
    if (from === to) return 0.05;
    const jitter = this.delayMs * (0.5 + this.chance.uniform());
    const slow = jitter * Math.max(from.slowness, to.slowness);
    if (!this.chance.happens(this.faults.spike)) return slow;
    this.world.trace.fault(this.world.time.nowMs, "delay spike", from.name, `to ${to.name}`);
    return slow + this.chance.between(0.2, 1) * this.faults.spikeMs;
  }

  /** When the last of so many bytes has left the host, behind what it has sent before. */
  leavesAtMs(from: Host, to: Host, bytes: number): number {
    const { nowMs } = this.world.time;
    if (this.#bytesPerMs === undefined || from === to) return nowMs;
    const atMs = Math.max(nowMs, this.#busyUntilMs.get(from.name) ?? 0) + bytes / this.#bytesPerMs;
    this.#busyUntilMs.set(from.name, atMs);
    return atMs;
  }

  /** Draws a fault, counting it when it strikes. */
  strikes(kind: keyof typeof strikeNames, from: Host, to: Host, what: string): boolean {
    if (from === to || !this.chance.happens(this.faults[kind])) return false;
    this.world.trace.fault(this.world.time.nowMs, strikeNames[kind], from.name, `to ${to.name}, ${what}`);
    return true;
  }

  /** Carries one message: `arrive` runs on `to` when it gets through, `giveUp` on `from` when it never does. */
  carry(from: Host, to: Host, arrive: () => void, giveUp: () => void): void {
    new Lane(this, from, to, giveUp).push(arrive);
  }
}

/** One direction of one connection: messages arrive in the order in which they were pushed, or not at all. */
export class Lane {
  readonly #wire: Wire;
  readonly #from: Host;
  readonly #to: Host;
  readonly #stalled: () => void;
  #queue: { atMs: number; arrive: () => void }[] = [];
  #newestMs = 0;
  #blockedSinceMs: number | undefined;
  #cut = false;
  #hangs = false;

  /** `stalled` runs on `from` when a partition has lasted too long. */
  constructor(wire: Wire, from: Host, to: Host, stalled: () => void) {
    this.#wire = wire;
    this.#from = from;
    this.#to = to;
    this.#stalled = stalled;
  }

  push(arrive: () => void, bytes = 0): void {
    if (this.#cut || this.#hangs) return;
    const { time } = this.#wire.world;
    const leavesAtMs = this.#wire.leavesAtMs(this.#from, this.#to, bytes);
    this.#newestMs = Math.max(this.#newestMs, leavesAtMs + this.#wire.delay(this.#from, this.#to));
    this.#queue.push({ atMs: this.#newestMs, arrive });
    if (this.#queue.length === 1) time.after(this.#newestMs - time.nowMs, this.#deliver);
  }

  /** Nothing more gets through, but what is on the way does. */
  hang(): void {
    this.#hangs = true;
  }

  /** From now on nothing gets through: what is on the way is lost. */
  cut(): void {
    this.#cut = true;
    this.#queue = [];
  }

  readonly #deliver = (): void => {
    const head = this.#queue[0];
    if (this.#cut || head === undefined) return;
    const { time } = this.#wire.world;
    if (this.#wire.isBlocked(this.#from, this.#to)) {
      this.#stall();
      return;
    }
    this.#blockedSinceMs = undefined;
    this.#queue.shift();
    this.#to.receive(head.arrive);
    const next = this.#queue[0];
    if (next !== undefined) time.after(next.atMs - time.nowMs, this.#deliver);
  };

  #stall(): void {
    const { time } = this.#wire.world;
    this.#blockedSinceMs ??= time.nowMs;
    if (time.nowMs - this.#blockedSinceMs < this.#wire.stallMs) {
      time.after(retryMs, this.#deliver);
      return;
    }
    this.cut();
    this.#from.receive(this.#stalled);
  }
}
