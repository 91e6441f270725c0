// Studies as people see them: each trial with its settings, how it goes, and what it came to.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { StudySchema, TrialSchema } from "../../protocol/gen/dcnr/v1/study_pb.ts";
import type { Dimension } from "../../tuning/space.ts";
import { trialsIn } from "../../tuning/study.ts";
import { bestOf } from "../../tuning/trial.ts";
import type { Context } from "../context.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { JobRecord } from "../records/jobs.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { StudyRecord, TrialRecord } from "../records/studies.ts";
import { seenTrial } from "./study-care.ts";

export type StudyView = MessageInitShape<typeof StudySchema>;
type TrialView = MessageInitShape<typeof TrialSchema>;

export interface StudyViewNeeds {
  readonly context: Context;
  readonly jobs: Jobs;
}

/** `whole` with its trials. */
export function studyView(needs: StudyViewNeeds, record: StudyRecord, job: JobRecord, whole: boolean): StudyView {
  const { study } = record;
  const trials = needs.context.mirror.under(prefix.trialsOf(record.id)).sort((a, b) => a.number - b.number);
  const best = bestOf(study, trials.map(seenTrial))?.number;
  const { status, reason } = needs.jobs.views.job(job, false);
  return {
    id: record.id,
    name: job.name,
    owner: job.owner,
    status,
    reason,
    metric: study.metric,
    search: study.search,
    schedule: study.schedule,
    seed: BigInt(study.seed),
    trialsWanted: trialsIn(study),
    parallel: study.parallel,
    every: BigInt(study.least),
    steps: BigInt(study.most),
    searched: whole ? study.space.map(searchedView) : [],
    trials: whole ? trials.map((trial) => trialView(needs, trial)) : [],
    ...(best !== undefined && { best }),
    trialsEnded: trials.filter((trial) => trial.status !== "open").length,
    trialsMade: trials.length,
    submittedWallMs: BigInt(Math.round(job.submittedWallMs)),
  };
}

function searchedView(dimension: Dimension) {
  const { name, kind } = dimension;
  if (dimension.kind === "choice")
    return { name, kind, values: dimension.values.map((value) => JSON.stringify(value)) };
  return { name, kind, low: dimension.low, high: dimension.high, logarithmic: dimension.log };
}

function trialView({ context }: StudyViewNeeds, trial: TrialRecord): TrialView {
  const job = context.mirror.get(key.job(trial.job ?? ""));
  const points = (of: Readonly<Record<string, number>>) =>
    Object.entries(of)
      .map(([step, value]) => ({ step: BigInt(step), value }))
      .sort((a, b) => Number(a.step - b.step));
  return {
    number: trial.number,
    settings: Object.fromEntries(Object.entries(trial.settings).map(([name, value]) => [name, JSON.stringify(value)])),
    status: trial.status === "open" ? lookOf(job) : trial.status,
    reason: trial.reason,
    job: trial.job ?? "",
    session: job?.session ?? "",
    values: points(trial.values),
    curve: points(trial.curve),
    ...(trial.parent && { parent: trial.parent.trial, parentStep: BigInt(trial.parent.step) }),
  };
}

function lookOf(job: JobRecord | undefined): string {
  if (job?.status === "running") return "running";
  return job?.held ? "resting" : "waiting";
}
