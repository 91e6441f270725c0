// From days to what people read: uptime, failures, time between and down, and how much of an objective's budget is left. Pure.

import { dayOf, hoursOfDay, type MachineDay, type NetworkDay } from "../records/availability.ts";

export interface Stretch {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface Row {
  readonly name: string;
  readonly machines: number;
  readonly onlineMs: number;
  readonly closedMs: number;
  readonly lostMs: number;
  readonly failures: number;
  /** 0 to 1, of the time that its owner gave; 0 if nobody looked. */
  readonly uptime: number;
  readonly betweenFailuresMs: number;
  readonly downMs: number;
  readonly budgetMs: number;
  readonly budgetLeftMs: number;
}

export type Grouping = "machine" | "owner" | "provider";

const parts = ["onlineMs", "closedMs", "lostMs", "failures"] as const;

/** Adds days up, as many as there are: a year of a large fleet is too much for one turn of the loop. */
export class Tally {
  readonly #bounds: Bounds;
  readonly #sums = { onlineMs: 0, closedMs: 0, lostMs: 0, failures: 0 };
  readonly #machines = new Set<string>();

  constructor(stretch: Stretch) {
    this.#bounds = boundsOf(stretch);
  }

  add(day: MachineDay): this {
    this.#machines.add(day.pnode);
    for (const part of parts) this.#sums[part] += within(day.day, day[part], this.#bounds);
    return this;
  }

  row(name: string, objective: number): Row {
    const { onlineMs, closedMs, lostMs, failures } = this.#sums;
    const givenMs = onlineMs + lostMs;
    const budgetMs = givenMs * (1 - objective);
    return {
      ...{ name, machines: this.#machines.size, onlineMs, closedMs, lostMs, failures },
      uptime: givenMs > 0 ? onlineMs / givenMs : 0,
      betweenFailuresMs: failures > 0 ? onlineMs / failures : 0,
      downMs: failures > 0 ? lostMs / failures : 0,
      ...{ budgetMs, budgetLeftMs: budgetMs - lostMs },
    };
  }
}

export function rowOf(name: string, days: readonly MachineDay[], stretch: Stretch, objective: number): Row {
  const tally = new Tally(stretch);
  for (const day of days) tally.add(day);
  return tally.row(name, objective);
}

/** Days that are added up before others get their turn: some milliseconds. */
const daysAtOnce = 1_000;

/** All machines together, and those of each group, the worst first. */
export async function rowsIn(
  days: readonly MachineDay[],
  {
    stretch,
    objective,
    by,
  }: { readonly stretch: Stretch; readonly objective: number; readonly by?: Grouping | undefined },
  breathe: () => Promise<void>,
): Promise<{ readonly whole: Row; readonly rows: readonly Row[] }> {
  const whole = new Tally(stretch);
  const groups = new Map<string, Tally>();
  for (const [index, day] of days.entries()) {
    whole.add(day);
    if (by !== undefined) {
      const name = groupOf(by, day);
      groups.set(name, (groups.get(name) ?? new Tally(stretch)).add(day));
    }
    if (index % daysAtOnce === daysAtOnce - 1) await breathe();
  }
  const rows = Array.from(groups, ([name, tally]) => tally.row(name, objective));
  rows.sort((a, b) => a.uptime - b.uptime || (a.name < b.name ? -1 : 1));
  return { whole: whole.row("all", objective), rows };
}

function groupOf(grouping: Grouping, { name, pnode, owner, provider }: MachineDay): string {
  return grouping === "machine"
    ? `${name} (${pnode.slice(0, 8)})`
    : (grouping === "owner" ? owner : provider) || "(none)";
}

export function recoveriesIn(days: readonly NetworkDay[], stretch: Stretch) {
  const bounds = boundsOf(stretch);
  const total = (part: "recoveries" | "recoveryMs" | "steps" | "repeated") =>
    days.reduce((sum, day) => sum + within(day.day, day[part], bounds), 0);
  const longestMs = days.reduce((most, day) => Math.max(most, ...hoursIn(day.day, day.longestMs, bounds)), 0);
  const count = total("recoveries");
  return {
    count,
    meanMs: count > 0 ? total("recoveryMs") / count : 0,
    longestMs,
    steps: total("steps"),
    repeated: total("repeated"),
  };
}

type Day = ReturnType<typeof dayOf>;

interface Bounds {
  readonly from: Day;
  readonly to: Day;
}

function boundsOf({ fromMs, toMs }: Stretch): Bounds {
  return { from: dayOf(fromMs), to: dayOf(toMs) };
}

function within(day: string, hours: readonly number[], bounds: Bounds): number {
  return hoursIn(day, hours, bounds).reduce((sum, value) => sum + value, 0);
}

/** Hours count whole: the first is the one in which the stretch begins. */
function hoursIn(day: string, hours: readonly number[], { from, to }: Bounds): readonly number[] {
  if (day < from.day || day > to.day) return [];
  return hours.slice(day === from.day ? from.hour : 0, day === to.day ? to.hour + 1 : hoursOfDay);
}
