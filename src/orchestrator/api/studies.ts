// StudyService: studies for people and programs. They are submitted, stopped and resumed as jobs.

import { fail } from "../../core/errors.ts";
import { StudyService } from "../../protocol/gen/dcnr/v1/study_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { findJob, jobById } from "../jobs/submit.ts";
import type { JobRecord } from "../records/jobs.ts";
import { key, prefix } from "../records/store-keys.ts";
import { studyView } from "../studies/study-views.ts";
import type { TuneKind } from "../studies/tune.ts";
import { newestFirst } from "./jobs.ts";
import { page } from "./pages.ts";

export interface StudyApiNeeds {
  readonly context: Context;
  readonly jobs: Jobs;
  readonly tune: TuneKind;
}

export function studyService(needs: StudyApiNeeds): ServedService {
  const { context, tune } = needs;
  const { mirror } = context;
  const view = async (job: JobRecord) => ({ study: studyView(needs, await tune.recordOf(job), job, true) });
  return service(StudyService, {
    getStudy: async ({ id }) => view(await findStudy(context, id)),
    listStudies: async (request) => {
      const jobs = mirror.under(prefix.jobs).filter(({ kind, id }) => kind === "tune" && mirror.get(key.study(id)));
      const found = page(jobs, newestFirst, request);
      const views = found.items.flatMap((job) => {
        const record = mirror.get(key.study(job.id));
        return record ? [studyView(needs, record, job, false)] : [];
      });
      return { studies: views, nextPageToken: found.nextPageToken };
    },
    addTrials: async ({ id, trials }) => {
      const job = await jobById(context, id);
      await tune.add(context, job, trials);
      return view(mirror.get(key.job(job.id)) ?? job);
    },
  });
}

/** A trial stands for its study. */
async function findStudy(context: Context, id: string): Promise<JobRecord> {
  const job = await findJob(context, id);
  if (job.trial) return jobById(context, job.trial.study);
  if (job.kind !== "tune") fail("failed_precondition", `job ${job.id} is no study: \`dcnr tune list\` shows them`);
  return job;
}
