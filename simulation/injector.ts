// Makes a plan's faults happen while a simulated run goes, and heals everything when their time is over.

import type { Sha256 } from "../src/core/ids.ts";
import { type FaultPlan, type Target, type TimedFault, untilFinished } from "./faults.ts";
import type { SimulatedBlobs } from "./world/blobs.ts";
import { noBlobFaults } from "./world/blobs.ts";
import { noStoreFaults, type SimulatedStore } from "./world/store.ts";
import { noWireFaults, type Wire } from "./world/wire.ts";
import type { SimulatedWorld } from "./world/world.ts";

export interface Injection {
  readonly world: SimulatedWorld;
  readonly wire: Wire;
  /** Hosts to which nobody else can connect. */
  readonly hidden: Set<string>;
  readonly store: SimulatedStore;
  readonly blobs: SimulatedBlobs;
  /** Starts a crashed process again. */
  readonly start: (host: string) => void;
  /** PNodes that have VNodes now. */
  readonly busy: () => readonly string[];
  /** Checkpoints whose loss the network must survive now. */
  readonly checkpoints: () => readonly Sha256[];
  /** States at the line of a running session whose loss it must survive now, with who works on from them. */
  readonly line: () => readonly { readonly hash: Sha256; readonly owner: string }[];
  /** Asks a PNode to leave in good order; it ends by itself. */
  readonly leave: (host: string) => void;
  /** What others say on streams that a host has open to them now does not get there. */
  readonly silence?: (host: string, by: readonly string[]) => void;
  /** Of sessions that go on without orchestrators; absent where there are none. */
  readonly crews?: Crews;
}

export interface Crews {
  /** Takes away what a PNode keeps for others. */
  loseDisk(host: string): void;
  /** Once, when a state is held by its owner and one keeper alone, and they host nothing else that is not held yet. */
  whenTwoHold(strike: (hosts: readonly string[]) => void): void;
  /** Orchestrators go, and come back only when the crews have finished. */
  orchestratorsGone(): void;
  /** Sessions that could go on without orchestrators have done so to their end. */
  readonly areFinished: boolean;
  /** They had all the time that they could need. */
  hang(): void;
}

/** Longer than any crew takes that has all it needs; then orchestrators come back, and somebody else finds what is wrong. */
export const crewsPatienceMs = 150_000;
const crewsLookMs = 500;

/** Schedules everything of a plan, and the end of it all at `windowMs`. */
export function inject(plan: FaultPlan, to: Injection): void {
  const { world, wire, store, blobs } = to;
  wire.faults = { ...plan.wire };
  store.faults = { ...plan.store };
  blobs.faults = { ...plan.blobs };
  const injector = new Injector(plan, to);
  for (const { atMs, fault } of plan.timed) world.time.after(atMs, () => injector.strike(fault));
  world.time.after(plan.windowMs, () => {
    wire.faults = { ...noWireFaults };
    store.faults = { ...noStoreFaults };
    blobs.faults = { ...noBlobFaults };
    world.trace.event(world.time.nowMs, "faults", "end: all is healed");
  });
}

class Injector {
  readonly #plan: FaultPlan;
  readonly #to: Injection;

  constructor(plan: FaultPlan, to: Injection) {
    this.#plan = plan;
    this.#to = to;
  }

  strike(fault: TimedFault): void {
    if ("host" in fault) {
      const host = this.#resolve(fault.host);
      if (host !== undefined) this.#strike({ ...fault, host });
    } else this.#strike(fault);
  }

  #resolve(target: Target): string | undefined {
    if (!target.startsWith("busy/")) return target;
    const busy = this.#to.busy();
    return busy[Math.floor(Number(target.slice("busy/".length)) * busy.length)];
  }

  #strike(fault: TimedFault): void {
    switch (fault.kind) {
      case "crash":
        this.#crash(fault.host, fault.silent, fault.durationMs);
        break;
      case "power cut":
        for (const host of fault.hosts) this.#crash(host, true, fault.durationMs);
        break;
      case "leave":
        this.#leave(fault.host, fault.durationMs);
        break;
      case "pause":
        this.#pause(fault.host, fault.durationMs);
        break;
      case "slow":
        this.#slow(fault.host, fault.factor, fault.durationMs);
        break;
      case "partition":
        this.#partition(fault.from, fault.to, fault.oneWay, fault.durationMs);
        break;
      case "cut":
        this.#cut(fault.from, fault.to, fault.oneWay);
        break;
      case "cut off":
        this.#partition([fault.host], fault.from, false, fault.durationMs);
        break;
      case "told nothing":
        this.#note("told nothing", fault.host, "");
        this.#to.silence?.(fault.host, fault.by);
        break;
      case "deaf":
        this.#deafen(fault.host, fault.prefix, fault.durationMs);
        break;
      case "line lost":
        this.#loseLine(fault.choice, fault.durationMs);
        break;
      case "clock jump":
        this.#jump(fault.host, fault.wallMs, fault.monotonicMs);
        break;
      case "store down":
        this.#storeDown(fault.durationMs);
        break;
      case "blob damaged":
        this.#damage(fault.choice);
        break;
      case "orchestrators gone":
        this.#orchestratorsGone(fault.hosts, fault.durationMs);
        break;
      case "disk lost":
        this.#note("disk lost", fault.host, "");
        this.#crash(fault.host, true, fault.durationMs);
        this.#to.crews?.loseDisk(fault.host);
        break;
      case "holders die":
        this.#to.crews?.whenTwoHold((hosts) => {
          this.#note("holders die", hosts.join(" "), "");
          for (const host of hosts) this.#crash(host, false, untilFinished);
        });
        break;
      case "nat":
        this.#hide(fault.host, fault.durationMs);
        break;
      case "relay crash":
        this.#note("relay crash", fault.host, "");
        this.#crash(fault.host, false, fault.durationMs);
        break;
      case "split":
        this.#partition(fault.from, fault.to, false, fault.durationMs);
        break;
    }
  }

  /** Heals after `durationMs`, or when the faults end. */
  #later(durationMs: number, heal: () => void): void {
    const { time } = this.#to.world;
    time.after(Math.min(durationMs, Math.max(0, this.#plan.windowMs - time.nowMs)), heal);
  }

  #note(kind: string, host: string, detail: string): void {
    this.#to.world.trace.fault(this.#to.world.time.nowMs, kind, host, detail);
  }

  #gone = false;
  /** Come back with the orchestrators. */
  readonly #dead: string[] = [];

  #orchestratorsGone(hosts: readonly string[], durationMs: number): void {
    this.#note("orchestrators gone", hosts.join(" "), `for ${Math.round(durationMs)} ms`);
    if (durationMs !== untilFinished) {
      for (const host of hosts) this.#crash(host, false, durationMs);
      return;
    }
    const { world } = this.#to;
    const sinceMs = world.time.nowMs;
    this.#gone = true;
    this.#to.crews?.orchestratorsGone();
    for (const host of hosts) world.host(host)?.crash();
    const look = () => {
      const isFinished = this.#to.crews?.areFinished ?? true;
      const untilMs = Math.max(sinceMs, this.#plan.windowMs) + crewsPatienceMs;
      if (!isFinished && world.time.nowMs < untilMs) {
        world.time.after(crewsLookMs, look);
        return;
      }
      if (!isFinished) this.#to.crews?.hang();
      this.#gone = false;
      world.trace.event(world.time.nowMs, "faults", "orchestrators come back");
      for (const host of [...hosts, ...this.#dead]) this.#startAgain(host);
    };
    world.time.after(crewsLookMs, look);
  }

  #crash(name: string, silent: boolean, durationMs: number): void {
    const host = this.#to.world.host(name);
    if (!host?.alive) return;
    this.#note(silent ? "silent crash" : "crash", name, `down for ${Math.round(durationMs)} ms`);
    host.crash(silent);
    if (durationMs === untilFinished) this.#dead.push(name);
    else this.#later(durationMs, () => this.#startAgain(name));
  }

  #leave(name: string, durationMs: number): void {
    const { world } = this.#to;
    const host = world.host(name);
    if (!host?.alive || host.paused) return;
    this.#note("leave", name, `back after ${Math.round(durationMs)} ms`);
    this.#to.leave(name);
    this.#later(durationMs, () => {
      // The process ends at the latest now, whether it was let go or not, and a new one comes.
      if (world.host(name) === host && host.alive) host.crash();
      this.#startAgain(name);
    });
  }

  /** Two faults may have stopped it, and the first to heal brings it back. */
  #startAgain(name: string): void {
    if (this.#gone && name.startsWith("o")) return;
    if (!this.#to.world.host(name)?.alive) this.#to.start(name);
  }

  #pause(name: string, durationMs: number): void {
    const host = this.#to.world.host(name);
    if (!host?.alive || host.paused) return;
    this.#note("pause", name, `${Math.round(durationMs)} ms`);
    host.pause();
    this.#later(durationMs, () => host.resume());
  }

  #slow(name: string, factor: number, durationMs: number): void {
    const host = this.#to.world.host(name);
    if (!host?.alive) return;
    this.#note("slow", name, `${factor.toFixed(1)} times, ${Math.round(durationMs)} ms`);
    host.slowness = factor;
    this.#later(durationMs, () => {
      host.slowness = 1;
    });
  }

  #partition(from: readonly string[], to: readonly string[], oneWay: boolean, durationMs: number): void {
    const { wire } = this.#to;
    this.#note(
      oneWay ? "one-way partition" : "partition",
      from.join(" "),
      `to ${to.join(" ")}, ${Math.round(durationMs)} ms`,
    );
    const pairs = from.flatMap((a) =>
      to.flatMap(
        (b) =>
          (oneWay
            ? [[a, b]]
            : [
                [a, b],
                [b, a],
              ]) as [string, string][],
      ),
    );
    for (const [a, b] of pairs) wire.block(a, b);
    this.#later(durationMs, () => {
      for (const [a, b] of pairs) wire.unblock(a, b);
    });
  }

  #hide(host: string, durationMs: number): void {
    const { hidden } = this.#to;
    this.#note("nat", host, durationMs === untilFinished ? "" : `for ${Math.round(durationMs)} ms`);
    hidden.add(host);
    if (durationMs !== untilFinished) this.#later(durationMs, () => hidden.delete(host));
  }

  #cut(from: string, to: string, oneWay: boolean): void {
    this.#note("cut", from, `${oneWay ? "does not reach" : "and"} ${to}${oneWay ? "" : " do not reach each other"}`);
    this.#to.wire.block(from, to);
    if (!oneWay) this.#to.wire.block(to, from);
  }

  #jump(name: string, wallMs: number, monotonicMs: number): void {
    const host = this.#to.world.host(name);
    if (!host?.alive) return;
    this.#note("clock jump", name, `wall ${Math.round(wallMs)} ms, monotonic ${Math.round(monotonicMs)} ms`);
    host.jumpClock(wallMs, monotonicMs);
  }

  #storeDown(durationMs: number): void {
    this.#note("store down", "store", `${Math.round(durationMs)} ms`);
    this.#to.store.outages += 1;
    this.#later(durationMs, () => {
      this.#to.store.outages -= 1;
    });
  }

  #deafen(name: string, prefix: string, durationMs: number): void {
    const { store } = this.#to;
    this.#note("deaf", name, `to ${prefix} for ${Math.round(durationMs)} ms`);
    const ear = { host: name, prefix };
    store.deaf.add(ear);
    this.#later(durationMs, () => store.deaf.delete(ear));
  }

  #loseLine(choice: number, durationMs: number): void {
    const states = this.#to.line();
    const state = states[Math.floor(choice * states.length)];
    if (state === undefined) return;
    this.#to.blobs.damage(state.hash);
    this.#crash(state.owner, false, durationMs);
  }

  #damage(choice: number): void {
    const hashes = this.#to.checkpoints();
    const hash = hashes[Math.floor(choice * hashes.length)];
    if (hash !== undefined) this.#to.blobs.damage(hash);
  }
}
