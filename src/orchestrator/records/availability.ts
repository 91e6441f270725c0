// What the store holds of availability: one record for each machine and day, with an entry for each hour (UTC), and one for the network. Events are
// not kept for long and may be lost; these are added up by compare-and-set.

export interface MachineDay {
  /** "2026-11-17" */
  readonly day: string;
  readonly pnode: string;
  readonly name: string;
  readonly owner: string;
  readonly provider: string;
  /** Milliseconds by hour of the day: there; told by its owner not to be used; missing. */
  readonly onlineMs: readonly number[];
  readonly closedMs: readonly number[];
  readonly lostMs: readonly number[];
  readonly failures: readonly number[];
}

export interface NetworkDay {
  readonly day: string;
  readonly recoveries: readonly number[];
  readonly recoveryMs: readonly number[];
  readonly longestMs: readonly number[];
  readonly steps: readonly number[];
  readonly repeated: readonly number[];
}

export const hoursOfDay = 24;

export function noHours(): number[] {
  return Array.from({ length: hoursOfDay }, () => 0);
}

export function dayOf(wallMs: number): { readonly day: string; readonly hour: number } {
  const hours = Math.floor(wallMs / 3_600_000);
  return { day: civilDay(Math.floor(hours / hoursOfDay)), hour: ((hours % hoursOfDay) + hoursOfDay) % hoursOfDay };
}

/** The calendar's name of a day, counted from 1970-01-01. Years begin in March here, so that the day that leaps comes last. */
function civilDay(sinceEpoch: number): string {
  const days = sinceEpoch + 719_468;
  const era = Math.floor(days / 146_097);
  const ofEra = days - era * 146_097;
  const yearOfEra = Math.floor(
    (ofEra - Math.floor(ofEra / 1_460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365,
  );
  const ofYear = ofEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const monthFromMarch = Math.floor((5 * ofYear + 2) / 153);
  const date = ofYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1;
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${String(year).padStart(4, "0")}-${two(month)}-${two(date)}`;
}
