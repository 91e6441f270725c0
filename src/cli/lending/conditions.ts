// Whether the machine is lent right now: its owner may have paused it, may need it himself or lend it at night alone; it may be
// on battery, or too hot. Asked with every heartbeat; when the answer is no, what it hosts goes to others and nothing comes.

import type { LendingRules } from "./rules.ts";

export interface Surroundings {
  /** Share of all cores that other programs use, 0 to 1. */
  readonly othersLoad: number;
  readonly power: "mains" | "battery" | "unknown";
  /** Of the processor, where it is known. */
  readonly celsius?: number | undefined;
  /** Of the day, where the machine is. */
  readonly hour: number;
}

/** Others that use more than the first share of the cores are at work; below the second for a while, they rest. */
const busyShare = 0.3;
const idleShare = 0.15;
/** Somebody who reads for a moment has not left. */
const restMs = 60_000;
/** Cooler than its limit by this much before it works again: it would go on and off otherwise. */
const coolerBy = 8;

export class Lending {
  readonly #rules: LendingRules;
  paused = false;
  #power: Surroundings["power"] = "mains";
  #hour = 0;
  #busy = false;
  #hot = false;
  #calmSinceMs: number | undefined;

  constructor(rules: LendingRules) {
    this.#rules = rules;
    // Until a calm while has passed, nobody knows that the machine is idle.
    this.#busy = rules.whenIdle;
  }

  notice({ othersLoad, power, celsius, hour }: Surroundings, nowMs: number): void {
    this.#power = power;
    this.#hour = hour;
    const { hottest } = this.#rules;
    if (hottest !== undefined && celsius !== undefined) this.#hot = celsius > hottest - (this.#hot ? coolerBy : 0);
    if (othersLoad > busyShare) this.#busy = true;
    if (othersLoad >= idleShare) {
      this.#calmSinceMs = undefined;
      return;
    }
    this.#calmSinceMs ??= nowMs;
    if (nowMs - this.#calmSinceMs >= restMs) this.#busy = false;
  }

  /** Why it is not lent now; empty if it is. */
  get refusal(): string {
    if (this.paused) return "paused by you";
    const { hours } = this.#rules;
    if (hours && !hours.include(this.#hour)) return `its hours are ${hours.text}`;
    if (this.#rules.onMains && this.#power === "battery") return "it runs on battery";
    if (this.#hot) return `it is hotter than ${this.#rules.hottest} °C`;
    if (this.#rules.whenIdle && this.#busy) return "you use it yourself";
    return "";
  }
}
