// What the store holds of studies: what was asked, and of each trial its settings and results. What is decided follows from
// these (src/tuning), so nothing that was decided needs to be kept but that it was carried out.

import type { JobId } from "../../core/ids.ts";
import type { Settings } from "../../tuning/space.ts";
import type { Study } from "../../tuning/study.ts";

export interface StudyRecord {
  /** The job that runs it. */
  readonly id: JobId;
  readonly study: Study;
  /** Settings of every trial, as the API's message; what is searched is put in their place. */
  readonly train: Readonly<Record<string, unknown>>;
  /** Sessions that are left when it is done. */
  readonly keep: "best" | "all";
}

/** "open": it trains, waits or rests. */
export type TrialStatus = "open" | "stopped" | "failed" | "done";

export interface TrialRecord {
  readonly study: JobId;
  readonly number: number;
  readonly settings: Settings;
  /** It began as a copy of this trial's state after so many steps. */
  readonly parent?: { readonly trial: number; readonly step: number };
  readonly status: TrialStatus;
  /** Why it was stopped or failed; empty otherwise. */
  readonly reason: string;
  /** Trains it; absent before its first steps. */
  readonly job?: JobId;
  /** It was stopped with its study, and goes on with it. */
  readonly halted?: true;
  /** How often it began anew because its last result was lost. */
  readonly attempt: number;
  /** What counts: the metric where it was looked at, by step. */
  readonly values: Readonly<Record<string, number>>;
  /** On the way there, for people: what was measured and lost with a machine may be missing. */
  readonly curve: Readonly<Record<string, number>>;
}
