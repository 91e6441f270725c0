// When a PNode's machine is measured. Measuring never holds a start up for long and never ends it: a machine that is too
// busy joins with an estimate and tells what it is once it knows.

import { loadavg } from "node:os";
import { messageOf } from "../../core/errors.ts";
import { type Cancel, sleep, type World } from "../../core/world.ts";
import type { Remembered } from "../../system/files/remembered.ts";
import { gflopsEstimated, type Measured, measureMachine } from "./measure-machine.ts";

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
  readonly #measure: () => Promise<Measured>;
  #last: Measured | undefined;
  #listener: (measured: Measured) => void = () => {};
  #cancel: Cancel = () => {};
  #stopped = false;

  constructor(memory: Remembered<Measured>, cores: number, world: World, measure = measureMachine) {
    this.#memory = memory;
    this.#cores = cores;
    this.#world = world;
    this.#measure = measure;
  }

  /** What is known, or told by whoever started this process, or can be found out soon; an estimate without numerics otherwise. */
  async atOnce(told?: Measured): Promise<Measured> {
    this.#last = (await this.#memory.get()) ?? (told && (await this.#memory.set(told)));
    if (this.#last !== undefined) {
      this.#later(calmCheckMs);
      return this.#last;
    }
    const first = this.#first();
    const late = sleep(this.#world.timers, patienceMs).then(() => undefined);
    const known = await Promise.race([first, late]);
    if (known !== undefined) return known;
    this.#world.log("warn", "this machine is too busy to be measured: it joins with an estimate and gets work later");
    return { gflops: gflopsEstimated, classes: [] };
  }

  /** Hears of what is found out after the start, if it differs from what was known. */
  onMeasured(listener: (measured: Measured) => void): void {
    this.#listener = listener;
  }

  get last(): Measured | undefined {
    return this.#last;
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  async #first(): Promise<Measured | undefined> {
    while (!this.#stopped) {
      try {
        const measured = await this.#measure();
        await this.#note(measured);
        this.#later(calmCheckMs);
        return measured;
      } catch (error) {
        this.#world.log("warn", `${messageOf(error)}; trying again`);
        await sleep(this.#world.timers, retryMs);
      }
    }
    return undefined;
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
    if (!this.#stopped) this.#listener(now);
  }
}
