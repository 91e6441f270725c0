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

export function rowOf(name: string, days: readonly MachineDay[], stretch: Stretch, objective: number): Row {
  const total = (part: "onlineMs" | "closedMs" | "lostMs" | "failures") =>
    days.reduce((sum, day) => sum + within(day.day, day[part], stretch), 0);
  const [onlineMs, closedMs, lostMs, failures] = [
    total("onlineMs"),
    total("closedMs"),
    total("lostMs"),
    total("failures"),
  ];
  const givenMs = onlineMs + lostMs;
  const budgetMs = givenMs * (1 - objective);
  return {
    ...{ name, machines: new Set(days.map(({ pnode }) => pnode)).size, onlineMs, closedMs, lostMs, failures },
    uptime: givenMs > 0 ? onlineMs / givenMs : 0,
    betweenFailuresMs: failures > 0 ? onlineMs / failures : 0,
    downMs: failures > 0 ? lostMs / failures : 0,
    ...{ budgetMs, budgetLeftMs: budgetMs - lostMs },
  };
}

/** The worst first. */
export function rowsBy(grouping: Grouping, days: readonly MachineDay[], stretch: Stretch, objective: number): Row[] {
  const nameOf = ({ name, pnode, owner, provider }: MachineDay) =>
    grouping === "machine" ? `${name} (${pnode.slice(0, 8)})` : (grouping === "owner" ? owner : provider) || "(none)";
  const groups = Map.groupBy(days, nameOf);
  const rows = Array.from(groups, ([name, own]) => rowOf(name, own, stretch, objective));
  return rows.sort((a, b) => a.uptime - b.uptime || (a.name < b.name ? -1 : 1));
}

export function recoveriesIn(days: readonly NetworkDay[], stretch: Stretch) {
  const total = (part: "recoveries" | "recoveryMs" | "steps" | "repeated") =>
    days.reduce((sum, day) => sum + within(day.day, day[part], stretch), 0);
  const longestMs = days.reduce((most, day) => Math.max(most, ...hoursIn(day.day, day.longestMs, stretch)), 0);
  const count = total("recoveries");
  return {
    count,
    meanMs: count > 0 ? total("recoveryMs") / count : 0,
    longestMs,
    steps: total("steps"),
    repeated: total("repeated"),
  };
}

function within(day: string, hours: readonly number[], stretch: Stretch): number {
  return hoursIn(day, hours, stretch).reduce((sum, value) => sum + value, 0);
}

/** Hours count whole: the first is the one in which the stretch begins. */
function hoursIn(day: string, hours: readonly number[], { fromMs, toMs }: Stretch): readonly number[] {
  const [from, to] = [dayOf(fromMs), dayOf(toMs)];
  if (day < from.day || day > to.day) return [];
  return hours.slice(day === from.day ? from.hour : 0, day === to.day ? to.hour + 1 : hoursOfDay);
}
