// Whether the machine is lent right now: its owner may have paused it, may need it himself, may be on
// battery, or it may be too hot. Asked
// with every heartbeat; when the answer is no, what it hosts goes to others and nothing comes.

export interface LendingRules {
  /** Only while others use little of the processor. */
  readonly whenIdle: boolean;
  readonly onMains: boolean;
  /** Degrees Celsius above which it is not lent; undefined if it may be as hot as it gets. */
  readonly hottest?: number | undefined;
}

export interface Surroundings {
  /** Share of all cores that other programs use, 0 to 1. */
  readonly othersLoad: number;
  readonly power: "mains" | "battery" | "unknown";
  /** Of the processor, where it is known. */
  readonly celsius?: number | undefined;
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
  #busy = false;
  #hot = false;
  #calmSinceMs: number | undefined;

  constructor(rules: LendingRules) {
    this.#rules = rules;
    // Until a calm while has passed, nobody knows that the machine is idle.
    this.#busy = rules.whenIdle;
  }

  notice({ othersLoad, power, celsius }: Surroundings, nowMs: number): void {
    this.#power = power;
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
    if (this.#rules.onMains && this.#power === "battery") return "it runs on battery";
    if (this.#hot) return `it is hotter than ${this.#rules.hottest} °C`;
    if (this.#rules.whenIdle && this.#busy) return "you use it yourself";
    return "";
  }
}
