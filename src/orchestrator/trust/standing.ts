// What a machine's results have earned it: how often it is checked, what it may do, and why, in words that a person can
// read. Pure functions of its record. Trust is how rarely one is checked.

import type { PNodeId } from "../../core/ids.ts";
import type { FaultRecord, StandingRecord } from "../records/checking.ts";

/** Intervals found right until a machine is known. */
export const rightsUntilKnown = 10;
/** Checked at least so often, however long all was right: this share never decays. */
export const rateFloor = 0.1;
/** Intervals that are waited for what nobody drew, and that are checked whole after somebody was found wrong. */
export const watchIntervals = 40;
/** Of an alarm over one liar. */
const alarmHalvesEvery = 50;
/** A second fault of the machine within so many intervals is no accident. */
const faultsTooClose = 1_000;
const faultsKeptMax = 20;
/** After a quarantine the owner may ask again (dcnr doctor) no sooner than this. */
export const coolOffMs = 3_600_000;

export type Level = "newcomer" | "known" | "trusted" | "quarantined" | "banned";

export function standingAtFirst(pnode: PNodeId): StandingRecord {
  return { pnode, right: 0, audited: 0, audits: 0, faults: [], excluded: [], due: 0 };
}

export function levelOf({ barred, trusted, right }: StandingRecord): Level {
  if (barred?.kind === "banned") return "banned";
  if (barred !== undefined) return "quarantined";
  if (trusted) return "trusted";
  return right >= rightsUntilKnown ? "known" : "newcomer";
}

/** Its results count for nothing in a class: it was found to compute otherwise, or was sent away. Whoever is in doubt may have been right. */
export function isOut({ barred, excluded }: StandingRecord, numericsClass: string): boolean {
  return excluded.includes(numericsClass) || (barred !== undefined && barred.kind !== "doubt");
}

/** The level as placement knows it (`--needs-trust`). */
export function placementTrust(standing: StandingRecord): string {
  const level = levelOf(standing);
  return level === "trusted" || level === "known" ? level : "untrusted";
}

/** Why it has its level, as one sentence. */
export function reasonOf(standing: StandingRecord): string {
  const { barred, right, faults } = standing;
  if (barred !== undefined) return barred.reason;
  const since = faults.length > 0 ? " since its last fault" : "";
  const count = `${right} interval${right === 1 ? "" : "s"} found right or final${since}`;
  switch (levelOf(standing)) {
    case "trusted":
      return `an operator vouches for it; ${count}`;
    case "known":
      return count;
    default:
      return `${count}; known from ${rightsUntilKnown} on`;
  }
}

/** What a session remembers of machines that were found wrong. */
export interface Alarm {
  /** Intervals since the last of them was. */
  readonly since: number;
  /** How many of them lied. */
  readonly liars: number;
}

/** How often an interval of its is repeated. */
export function auditRate(standing: StandingRecord, alarm?: Alarm): number {
  if (standing.due > 0) return 1;
  const floor = standing.trusted ? rateFloor / 2 : rateFloor;
  return Math.max(floor, Math.min(1, rightsUntilKnown / Math.max(1, standing.right)), alarmRate(alarm));
}

/**
 * Where many have lied others of them may still sleep, and one that wakes when all is calm and leaves before it is drawn leaves lies behind that become final:
 * the more were found, the longer the rest is watched.
 */
export function alarmRate(alarm: Alarm | undefined): number {
  if (alarm === undefined) return 0;
  const { since, liars } = alarm;
  if (since < watchIntervals) return 1;
  return 0.5 ** (1 + Math.floor((since - watchIntervals) / (alarmHalvesEvery * Math.max(1, liars))));
}

/** After intervals of its were found right, or became final. */
export function withRight(standing: StandingRecord, count: number): StandingRecord {
  return { ...standing, right: standing.right + count };
}

/**
 * What a fault does to its standing. Nobody is banned at first sight, but for two contradicting signatures. A machine that lies does
 * so in many intervals before it is found: all of them are one offence. Only who lies again after it was let back in is banned.
 */
export function withFault(standing: StandingRecord, fault: FaultRecord, numericsClass: string): StandingRecord {
  const faults = [...standing.faults, fault].slice(-faultsKeptMax);
  const faulty = { ...standing, faults, due: 0 };
  const bar = (kind: "quarantined" | "banned"): StandingRecord =>
    standing.barred?.kind === "banned" || standing.barred?.kind === kind
      ? { ...faulty, right: 0 }
      : { ...faulty, right: 0, barred: { kind, reason: fault.story, wallMs: fault.wallMs } };
  switch (fault.kind) {
    case "class":
      return { ...faulty, excluded: [...new Set([...standing.excluded, numericsClass])] };
    // A blob store may lose once what a sender has stored, as memory may err once; several neighbours, and several intervals, may show the one time.
    case "withholding":
    case "hardware": {
      const before = standing.faults.findLast(({ kind }) => kind === fault.kind);
      const isSameTime = before !== undefined && (fault.doneWallMs ?? fault.wallMs) < before.wallMs;
      const isAgain = before !== undefined && !isSameTime && standing.right < faultsTooClose;
      return isAgain ? bar("quarantined") : { ...faulty, right: 0 };
    }
    // One of the two is right. Whoever is at odds with a second machine is not.
    case "seam": {
      const isAgain = standing.faults.some((one) => one.kind === "seam" && one.with !== fault.with);
      return isAgain && standing.right < faultsTooClose ? bar("quarantined") : { ...faulty, right: 0 };
    }
    // What was answered cannot be taken back: it answers nobody until its owner has looked at it.
    case "answer":
    case "silence":
      return bar("quarantined");
    case "lie":
      return bar(isRelapse(standing, fault) ? "banned" : "quarantined");
    case "equivocation":
      return bar("banned");
  }
}

/** It lied, was let back in, and was found lying after that. */
function isRelapse({ faults, readmittedWallMs }: StandingRecord, { wallMs }: FaultRecord): boolean {
  if (readmittedWallMs === undefined || wallMs < readmittedWallMs) return false;
  return faults.some((one) => one.kind === "lie" && one.wallMs <= readmittedWallMs);
}

/**
 * Whether a machine that was quarantined may begin anew because its owner has examined it since. Whoever only says so is where every newcomer is: all that it
 * computes is checked, and a second lie is the last. An hour apart, that is less than a new key would give it.
 */
export function mayReturn({ barred }: StandingRecord, examinedWallMs: number, nowWallMs: number): boolean {
  if (barred?.kind !== "quarantined") return false;
  return examinedWallMs > barred.wallMs && nowWallMs - barred.wallMs >= coolOffMs;
}

/** Lets a machine that was quarantined begin anew, as a newcomer. */
export function readmitted({ barred: _, ...standing }: StandingRecord, wallMs: number): StandingRecord {
  return { ...standing, right: 0, due: 0, readmittedWallMs: wallMs };
}
