// The one calm screen of a machine that is lent: what, to whom, what it does now, what it gave. A pure function.

import { duration } from "../../core/words/duration.ts";
import type { Readings } from "../../pnode/self-report.ts";
import { cut, plain, type Tone } from "../shown/output.ts";
import { type Given, wattHours } from "./given.ts";
import type { NetworkNews } from "./network-news.ts";
import type { Wish } from "./wishes.ts";

export interface LendingState {
  readonly name: string;
  readonly network: string;
  readonly address: string;
  /** A sentence. */
  readonly reach: string;
  /** "2 of 8 cores", "up to 4.0 GiB of memory", ... */
  readonly lends: readonly string[];
  readonly readings: Readings;
  readonly wish: Wish;
  /** Why it is not lent now; empty if it is. */
  readonly refusal: string;
  readonly problems: readonly string[];
  readonly given: Given;
  /** Undefined while nobody has told. */
  readonly news?: NetworkNews | undefined;
  /** Where its owner's page is, on the machine itself. */
  readonly page?: string | undefined;
  /** The newest last. */
  readonly log: readonly string[];
}

export interface LendingWindow {
  readonly width: number;
  paint(tone: Tone, text: string): string;
}

const sessionsShown = 4;
const logShown = 4;

export function lendingLines(state: LendingState, { width, paint }: LendingWindow): string[] {
  const row = (title: string, text: string, tone?: Tone) => {
    const shown = cut(plain(text), Math.max(10, width - 9));
    return `${paint("dim", title.padEnd(8))} ${tone ? paint(tone, shown) : shown}`;
  };
  const { now, tone, work, gave } = lendingTexts(state);
  return [
    paint("bold", cut(plain(`${state.name} is lent to ${state.network}`), width)),
    "",
    ...state.lends.map((one, index) => row(index === 0 ? "lends" : "", one)),
    row("now", now, tone),
    ...work.map((one) => row("", one)),
    ...gave.map((one, index) => row(index === 0 ? "gave" : "", one)),
    row("peers", `call ${state.address}`),
    row("", state.reach),
    ...(state.page ? [row("page", state.page)] : []),
    ...(state.news?.update ? [row("update", state.news.update, "accent")] : []),
    ...state.problems.slice(0, 2).map((problem) => row("trouble", problem, "warn")),
    "",
    ...state.log.slice(-logShown).map((line) => paint("dim", cut(plain(line), width))),
    "",
    paint("dim", cut(keys(state.wish), width)),
  ];
}

/** In words, for the screen and for the page. */
export interface LendingTexts {
  readonly now: string;
  readonly tone: Tone;
  readonly work: readonly string[];
  readonly gave: readonly string[];
}

export function lendingTexts(state: LendingState): LendingTexts {
  const { text, tone } = doing(state);
  return { now: text, tone, work: workOf(state.readings), gave: gaveOf(state) };
}

function doing({ readings, wish, refusal }: LendingState): { readonly text: string; readonly tone: Tone } {
  const busy = readings.vnodes.length > 0;
  if (!readings.attached) return { text: "looks for an orchestrator", tone: "warn" };
  if (refusal) return { text: `not lent: ${refusal}${busy ? "; what it does goes to others" : ""}`, tone: "warn" };
  if (wish === "finish") return { text: "finishes what it has, then leaves", tone: "accent" };
  if (!busy) return { text: "ready, waits for work", tone: "good" };
  const { length } = readings.vnodes;
  return { text: `works: ${length === 1 ? "1 part of a network" : `${length} parts of networks`}`, tone: "good" };
}

function workOf({ vnodes }: Readings): string[] {
  const sessions = Array.from(Map.groupBy(vnodes, ({ session }) => session));
  const lines = sessions.slice(0, sessionsShown).map(([session, own]) => {
    const step = Math.max(...own.map((one) => Number(one.step)));
    const stepMs = own.reduce((sum, one) => sum + one.stepMs, 0);
    const speed = stepMs > 0 ? `, ${duration(stepMs / 1000)} of computing a step` : "";
    return `${session}: ${own.length === 1 ? "1 VNode" : `${own.length} VNodes`} at step ${step}${speed}`;
  });
  return sessions.length > sessionsShown ? [...lines, `and ${sessions.length - sessionsShown} more sessions`] : lines;
}

function gaveOf({ given, news }: LendingState): string[] {
  const wh = wattHours(given);
  const energy = wh >= 0.1 ? `, about ${wh >= 10 ? wh.toFixed(0) : wh.toFixed(1)} Wh` : "";
  const computed = given.computedMs >= 1000 ? ` with ${duration(given.computedMs / 1000)} of computing${energy}` : "";
  const verified = `verified: ${news?.earned.toLocaleString("en")} credits for work that is final`;
  return [
    `${duration(Math.round(given.lentMs / 1000))} of its time, ${given.steps.toLocaleString("en")} steps${computed}`,
    ...(news === undefined ? [] : [verified]),
  ];
}

function keys(wish: Wish): string {
  const pause = wish === "pause" ? "p lends it again" : "p pauses";
  const finish = wish === "finish" ? "f stays after all" : "f finishes what it has, then leaves";
  return `${pause}   ${finish}   q hands its work over and leaves`;
}
