// When a PNode's machine is measured. Measuring never holds a start up for long and never ends it: a machine that is too
// busy joins with an estimate, and with those classes that it knows, and tells the rest once it knows.

import { loadavg } from "node:os";
import { messageOf } from "../../core/errors.ts";
import { type Cancel, sleep, type World } from "../../core/world.ts";
import type { Remembered } from "../../system/files/remembered.ts";
import { gflopsEstimated, type Measured, measureMachine, type OnFound } from "./measure-machine.ts";

/** What a start waits for the first measurement. */
const patienceMs = 15_000;
/** How often a machine is looked at until it is calm, and how often a calm one is measured again. */
const calmCheckMs = 60_000;
const againMs = 6 * 3_600_000;
const retryMs = 30_000;

export class Measuring {
  readonly #memory: Remembered<Measured>;
  readonly #cores: number;
  readonly #world: World;
  readonly #measure: (onFound?: OnFound) => Promise<Measured>;
  #last: Measured | undefined;
  /** What a listener knows already: what the start was given, or what was told since. */
  #told: Measured | undefined;
  #listener: ((measured: Measured) => void) | undefined;
  #cancel: Cancel = () => {};
  #stopped = false;

  constructor(
    memory: Remembered<Measured>,
    cores: number,
    world: World,
    measure: (onFound?: OnFound) => Promise<Measured> = measureMachine,
  ) {
    this.#memory = memory;
    this.#cores = cores;
    this.#world = world;
    this.#measure = measure;
  }

  /** What is known, or told by whoever started this process, or can be found out soon; otherwise what was found out by then, at an estimated speed. */
  async atOnce(told?: Measured): Promise<Measured> {
    this.#last = (await this.#memory.get()) ?? (told && (await this.#memory.set(told)));
    if (this.#last !== undefined) this.#later(calmCheckMs);
    else {
      const late = sleep(this.#world.timers, patienceMs).then(() => true);
      if (await Promise.race([this.#first().then(() => false), late])) this.#tellBusy();
    }
    this.#told = this.#last ?? { gflops: gflopsEstimated, classes: [] };
    return this.#told;
  }

  #tellBusy(): void {
    const classes = this.#last?.classes ?? [];
    this.#world.log(
      "warn",
      "this machine is too busy to be measured: it joins with an estimate, " +
        (classes.length === 0
          ? "and gets work later"
          : `and gets work for ${classes.map(({ engine }) => engine).join(" and ")} numerics`),
    );
  }

  /** Hears of what is found out after the start, also if that was before it listened. */
  onMeasured(listener: (measured: Measured) => void): void {
    this.#listener = listener;
    this.#tell();
  }

  get last(): Measured | undefined {
    return this.#last;
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  async #first(): Promise<void> {
    const onFound = (found: Measured) => {
      this.#last = found;
      this.#tell();
    };
    while (!this.#stopped) {
      try {
        const measured = await this.#measure(onFound);
        onFound(measured);
        await this.#memory.set(measured);
        return this.#later(calmCheckMs);
      } catch (error) {
        this.#world.log("warn", `${messageOf(error)}; trying again`);
        await sleep(this.#world.timers, retryMs);
      }
    }
  }

  #later(delayMs: number): void {
    if (!this.#stopped) this.#cancel = this.#world.timers.after(delayMs, () => void this.#whenCalm());
  }

  /** Other load only makes a machine look slow, so it is measured at a calm moment, and now and then again. */
  async #whenCalm(): Promise<void> {
    if ((loadavg()[0] ?? 0) > this.#cores / 2) return this.#later(calmCheckMs);
    try {
      await this.#note(await this.#measure());
    } catch (error) {
      this.#world.log("debug", messageOf(error));
    }
    this.#later(againMs);
  }

  async #note(now: Measured): Promise<void> {
    const before = this.#last;
    this.#last = now;
    await this.#memory.set(now);
    if (before !== undefined && JSON.stringify(before.classes) !== JSON.stringify(now.classes))
      this.#world.log(
        "warn",
        "this machine rounds differently from before: it takes work of its new class from now on",
      );
    this.#tell();
  }

  #tell(): void {
    const now = this.#last;
    if (this.#stopped || this.#listener === undefined || now === undefined || now === this.#told) return;
    this.#told = now;
    this.#listener(now);
  }
}
