// A machine while it is lent: looks at its surroundings and at its owner's wishes, counts what it gives, and draws the
// screen where there is a terminal to draw it on.

import { platform } from "node:os";
import type { Clock, Log } from "../../core/world.ts";
import type { PerformedWork } from "../../pnode/options.ts";
import type { PNode } from "../../pnode/pnode.ts";
import { shownRoute } from "../../protocol/routes/routes.ts";
import { type MachineView, thisMachine } from "../../system/machine/hardware.ts";
import { type CpuTimes, othersLoad, readCpuTimes } from "../../system/machine/others-load.ts";
import { readPower } from "../../system/machine/power.ts";
import { readTemperature } from "../../system/machine/temperature.ts";
import type { Output } from "../shown/output.ts";
import { listenForKeys } from "../top/keys.ts";
import { Lending } from "./conditions.ts";
import { GivenTotals } from "./given.ts";
import type { NetworkNews } from "./network-news.ts";
import { reachText } from "./reach-text.ts";
import type { LendingRules } from "./rules.ts";
import { type LendingState, lendingLines } from "./screen.ts";
import { readWish, type Wish, writeWish } from "./wishes.ts";

const tickMs = 1_000;
/** Shorter would take a short peak of somebody else for work. */
const surroundingsEveryTicks = 5;
const saveEveryTicks = 60;
/** Work becomes final every few checkpoints. */
const newsEveryTicks = 30;
/** Between two parts of its work a machine has none for a moment. */
const emptyTicksLeast = 3;
const logKept = 20;

/** What is looked at, passed in so that tests can describe another machine. */
export interface Surrounding {
  readonly system: string;
  readonly machine: MachineView;
  readonly cpuTimes: typeof readCpuTimes;
}

const here: Surrounding = { system: platform(), machine: thisMachine, cpuTimes: readCpuTimes };

export interface LentFacts {
  readonly name: string;
  readonly network: string;
  /** As it is now. */
  readonly lends: () => readonly string[];
  readonly page?: string | undefined;
  /** Asks an orchestrator. */
  readonly news?: () => Promise<NetworkNews>;
}

export class Volunteering {
  readonly #folder: string;
  readonly #out: Output;
  readonly #clock: Clock;
  readonly #lending: Lending;
  readonly #given: GivenTotals;
  readonly #log: string[] = [];
  readonly #leaving = new AbortController();
  #wish: Wish = "lend";
  #pnode: PNode | undefined;
  #facts: LentFacts = { name: "", network: "", lends: () => [] };
  readonly #around: Surrounding;
  #times: CpuTimes;
  #news: NetworkNews | undefined;
  #ticks = 0;
  #emptyTicks = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  #close: () => void = () => {};

  private constructor(
    folder: string,
    rules: LendingRules,
    out: Output,
    clock: Clock,
    given: GivenTotals,
    around: Surrounding,
  ) {
    this.#folder = folder;
    this.#around = around;
    this.#times = around.cpuTimes();
    this.#out = out;
    this.#clock = clock;
    this.#lending = new Lending(rules);
    this.#given = given;
  }

  static async open(
    folder: string,
    rules: LendingRules,
    out: Output,
    clock: Clock,
    around: Surrounding = here,
  ): Promise<Volunteering> {
    const opened = new Volunteering(folder, rules, out, clock, await GivenTotals.open(folder), around);
    // Whoever starts it again after it left wants it to stay.
    if (["finish", "leave"].includes(await readWish(folder))) await writeWish(folder, "lend");
    await opened.#heed();
    await opened.#lookAround();
    return opened;
  }

  /** Asked with every heartbeat. */
  readonly lends = (): boolean => this.#lending.refusal === "";

  readonly onWork = ({ kind, durationMs }: PerformedWork): void => this.#given.work(kind, durationMs);

  /** Instead of lines on standard error, which would run through the screen. */
  readonly log: Log = (level, message) => {
    if (level === "debug") return;
    const at = new Date(this.#clock.wallMs()).toTimeString().slice(0, 8);
    this.#log.push(`${at} ${message}`);
    this.#log.splice(0, this.#log.length - logKept);
  };

  /** From now on; on a screen of its own if that is wanted. */
  begin(pnode: PNode, facts: LentFacts, screen: boolean): void {
    this.#pnode = pnode;
    this.#facts = facts;
    if (screen) this.#openScreen();
    this.#timer = setInterval(() => void this.tick().catch(() => {}), tickMs);
  }

  /** Aborts when the owner wants it to leave, by a key or because it has finished. */
  get leaving(): AbortSignal {
    return this.#leaving.signal;
  }

  /** Gives the terminal back. */
  closeScreen(): void {
    this.#close();
    this.#close = () => {};
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.closeScreen();
    await this.#given.save().catch(() => {});
  }

  /** A second has passed. */
  async tick(): Promise<void> {
    this.#ticks += 1;
    if (this.lends() && this.#pnode?.readings().attached) this.#given.passed(tickMs);
    if (this.#ticks % newsEveryTicks === 1) void this.#askForNews();
    await this.#heed();
    if (this.#ticks % surroundingsEveryTicks === 0) await this.#lookAround();
    if (this.#ticks % saveEveryTicks === 0) await this.#given.save();
    this.#leaveIfFinished();
    this.#draw();
  }

  /** An orchestrator that is away tells later. */
  async #askForNews(): Promise<void> {
    const { update } = this.#news ?? {};
    this.#news = (await this.#facts.news?.().catch(() => undefined)) ?? this.#news;
    if (this.#news?.update && this.#news.update !== update && !this.#drawsScreen) this.#out.note(this.#news.update);
  }

  async #heed(): Promise<void> {
    this.#wish = await readWish(this.#folder);
    this.#lending.paused = this.#wish === "pause";
  }

  async #lookAround(): Promise<void> {
    const { system, machine, cpuTimes } = this.#around;
    const times = cpuTimes();
    const power = await readPower(system, machine);
    const celsius = readTemperature(system, machine);
    const hour = new Date(this.#clock.wallMs()).getHours();
    const load = othersLoad(this.#times, times);
    this.#lending.notice({ othersLoad: load, power, celsius, hour }, this.#clock.monotonicMs());
    this.#times = times;
  }

  #leaveIfFinished(): void {
    const empty = this.#pnode?.readings().vnodes.length === 0;
    this.#emptyTicks = empty && this.#wish === "finish" ? this.#emptyTicks + 1 : 0;
    if (this.#wish === "leave" || this.#emptyTicks >= emptyTicksLeast) this.#leaving.abort();
  }

  #openScreen(): void {
    const unlisten = listenForKeys((key) => void this.#press(key).catch(() => {}));
    const draw = () => this.#draw();
    process.stdout.on("resize", draw);
    this.#out.raw("\x1b[?1049h\x1b[?25l");
    this.#close = () => {
      unlisten();
      process.stdout.off("resize", draw);
      this.#out.raw("\x1b[?25h\x1b[?1049l");
    };
    this.#drawsScreen = true;
    draw();
  }

  #drawsScreen = false;

  async #press(key: string): Promise<void> {
    if (key === "q" || key === "interrupt") return this.#leaving.abort();
    const wished: Wish | undefined = key === "p" ? "pause" : key === "f" ? "finish" : undefined;
    if (wished === undefined) return;
    await this.wish(this.#wish === wished ? "lend" : wished);
  }

  /** As it is now; undefined before it is lent. */
  get state(): LendingState | undefined {
    const pnode = this.#pnode;
    return (
      pnode && {
        ...this.#facts,
        lends: this.#facts.lends(),
        address: shownRoute(pnode.address),
        reach: reachText(pnode.reach),
        readings: pnode.readings(),
        wish: this.#wish,
        refusal: this.#lending.refusal,
        problems: pnode.problems(),
        given: this.#given.now,
        news: this.#news,
        log: this.#log,
      }
    );
  }

  /** What the owner wishes from now on. */
  async wish(wished: Wish): Promise<void> {
    await writeWish(this.#folder, wished);
    await this.#heed();
    this.#draw();
  }

  #draw(): void {
    const { state } = this;
    if (!this.#drawsScreen || !state || this.#leaving.signal.aborted) return;
    const lines = lendingLines(state, { width: this.#out.width, paint: this.#out.tone });
    const shown = lines.slice(0, (process.stdout.rows ?? 40) - 1);
    this.#out.raw(`\x1b[H${shown.map((line) => `${line}\x1b[K`).join("\n")}\x1b[J`);
  }
}
