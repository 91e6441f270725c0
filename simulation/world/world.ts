// Simulated machines. A Host is one incarnation of one process: it can be paused (its timers and deliveries
// wait), slowed, or crashed (they vanish), and it gives production code the World that it asks for.

import type { Cancel, Log, World } from "../../src/core/world.ts";
import { SeededChance } from "./chance.ts";
import { VirtualTime } from "./time.ts";
import { Trace } from "./trace.ts";

/** 2026-01-01, so that times in traces look like times. */
export const epochWallMs = 1_767_225_600_000;

/** What went wrong inside a host's own code; any of these fails the run. */
export interface HostFailure {
  readonly host: string;
  readonly atMs: number;
  readonly error: unknown;
}

export class SimulatedWorld {
  readonly seed: number;
  readonly time = new VirtualTime();
  readonly trace: Trace;
  /** For faults and delays; hosts have their own. */
  readonly chance: SeededChance;
  readonly failures: HostFailure[] = [];
  readonly #hosts = new Map<string, Host>();
  readonly #incarnations = new Map<string, number>();
  readonly #crashListeners: ((host: Host, silent: boolean) => void)[] = [];

  constructor(seed: number, options: { readable?: boolean } = {}) {
    this.seed = seed;
    this.trace = new Trace(options.readable);
    this.chance = new SeededChance(seed, "world");
  }

  /** Starts a process under this name; one that crashed may be started again. */
  start(name: string): Host {
    if (this.#hosts.get(name)?.alive) throw new Error(`host ${name} is running already`);
    const incarnation = (this.#incarnations.get(name) ?? 0) + 1;
    this.#incarnations.set(name, incarnation);
    const host = new Host(this, name, incarnation);
    this.#hosts.set(name, host);
    this.trace.event(this.time.nowMs, name, `starts (${incarnation})`);
    return host;
  }

  /** The newest incarnation under this name. */
  host(name: string): Host | undefined {
    return this.#hosts.get(name);
  }

  get hosts(): Host[] {
    return [...this.#hosts.values()];
  }

  /** `silent`: as when the power goes; nobody tells its peers. Else the system resets its connections. */
  onCrash(listener: (host: Host, silent: boolean) => void): void {
    this.#crashListeners.push(listener);
  }

  crashed(host: Host, silent: boolean): void {
    for (const listener of this.#crashListeners) listener(host, silent);
  }
}

export class Host {
  readonly name: string;
  readonly incarnation: number;
  readonly simulated: SimulatedWorld;
  readonly world: World;
  /** How many times slower than usual it computes and answers. */
  slowness = 1;
  #alive = true;
  #paused = false;
  #held: (() => void)[] = [];
  #wallOffsetMs: number;
  #monotonicOffsetMs: number;

  constructor(simulated: SimulatedWorld, name: string, incarnation: number) {
    this.simulated = simulated;
    this.name = name;
    this.incarnation = incarnation;
    const chance = new SeededChance(simulated.seed, `${name}/${incarnation}`);
    this.#wallOffsetMs = chance.between(-30_000, 30_000);
    this.#monotonicOffsetMs = chance.between(0, 1e6) - simulated.time.nowMs;
    this.world = {
      chance,
      clock: {
        wallMs: () => Math.round(epochWallMs + simulated.time.nowMs + this.#wallOffsetMs),
        monotonicMs: () => simulated.time.nowMs + this.#monotonicOffsetMs,
      },
      timers: { after: (delayMs, callback) => this.after(delayMs, callback) },
      log: this.#log,
    };
  }

  get alive(): boolean {
    return this.#alive;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Calls back on this host after `delayMs`: later if it is paused then, never if it has crashed. */
  after(delayMs: number, callback: () => void): Cancel {
    let cancelled = false;
    const event = this.simulated.time.after(delayMs, () => this.receive(() => !cancelled && callback()));
    return () => {
      cancelled = true;
      this.simulated.time.cancel(event);
    };
  }

  /** Runs a callback on this host now, holds it while the host is paused, drops it if the host is gone. */
  receive(callback: () => void): void {
    if (!this.#alive) return;
    if (this.#paused) {
      this.#held.push(callback);
      return;
    }
    try {
      callback();
    } catch (error) {
      this.simulated.failures.push({ host: this.name, atMs: this.simulated.time.nowMs, error });
    }
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    const held = this.#held;
    this.#held = [];
    // Each in an event of its own, in the order in which they came due, as a resumed process would see them.
    for (const callback of held) this.simulated.time.after(0, () => this.receive(callback));
  }

  crash(silent = false): void {
    if (!this.#alive) return;
    this.#alive = false;
    this.#held = [];
    this.simulated.crashed(this, silent);
  }

  /** The wall clock may jump either way; the monotonic one only leaps ahead, as after a laptop's sleep. */
  jumpClock(wallMs: number, monotonicMs = 0): void {
    this.#wallOffsetMs += wallMs;
    this.#monotonicOffsetMs += Math.max(0, monotonicMs);
  }

  readonly #log: Log = (level, message, fields) => {
    if (!this.#alive) return;
    const { trace, time } = this.simulated;
    trace.event(time.nowMs, this.name, `${level} ${message}`, fields && (() => JSON.stringify(fields)));
  };
}
