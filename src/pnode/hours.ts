// The hours in which an owner lends the machine: "22-7" means from 22:00 to 7:00.

import { fail } from "../core/errors.ts";

export type Hours = (hour: number) => boolean;

/** Empty: always. */
export function parseHours(text: string): Hours {
  if (text === "") return () => true;
  const match = /^(\d{1,2})-(\d{1,2})$/.exec(text);
  const [start, end] = [Number(match?.[1]), Number(match?.[2])];
  if (match === null || start > 24 || end > 24)
    fail("invalid_argument", `--hours takes two hours of the day such as 22-7, not "${text}"`);
  if (start === end) return () => true;
  return start < end ? (hour) => hour >= start && hour < end : (hour) => hour >= start || hour < end;
}
