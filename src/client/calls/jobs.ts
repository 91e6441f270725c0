// Calls about jobs, the queues in which they wait, and studies, which are jobs whose trials are jobs.

import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type Job,
  JobService,
  type JobSpecSchema,
  type Queue,
  type SetQueueRequestSchema,
} from "../../protocol/gen/dcnr/v1/job_pb.ts";
import { type Study, StudyService } from "../../protocol/gen/dcnr/v1/study_pb.ts";
import { allPages, type Line } from "./line.ts";

export type JobSpecInit = Omit<MessageInitShape<typeof JobSpecSchema>, "$typeName" | "spec"> & {
  readonly kind: string;
  /** What the kind needs: for "train" the session's settings, by the names of the API. */
  readonly spec?: Readonly<Record<string, unknown>>;
};

/** What a worker tells of a data job; `result` or `failure` at its end. */
export interface DataTold {
  readonly progress?: number;
  readonly result?: Record<string, string>;
  readonly failure?: string;
  readonly givesUp?: boolean;
}

export interface JobFilter {
  readonly queue?: string;
  readonly owner?: string;
  readonly statuses?: readonly string[];
}

export type QueueInit = Omit<MessageInitShape<typeof SetQueueRequestSchema>, "$typeName" | "name">;

export const jobCalls = (line: Line) => ({
  /** All of them, or none if one is wrong. With keys, asking again is safe: the same jobs come back. */
  submit: async (jobs: readonly JobSpecInit[], options: { owner?: string } = {}): Promise<Job[]> => {
    const method = JobService.method.submitJobs;
    const specs = jobs.map(({ spec, ...job }) => ({ ...job, spec: JSON.stringify(spec ?? {}) }));
    return (await line.call(method, { jobs: specs, owner: options.owner ?? "" })).jobs;
  },
  get: async (id: string): Promise<Job> => {
    const { job } = await line.call(JobService.method.getJob, { id });
    return job!;
  },
  list: (filter: JobFilter = {}): Promise<Job[]> =>
    allPages(async (pageToken) => {
      const request = { queue: "", owner: "", ...filter, statuses: [...(filter.statuses ?? [])], pageToken };
      const page = await line.call(JobService.method.listJobs, request);
      return { items: page.jobs, next: page.nextPageToken };
    }),
  logs: async (id: string) => (await line.call(JobService.method.listJobLogs, { id })).events,
  watch: (id: string, signal?: AbortSignal) => line.watch(JobService.method.watchJob, { id }, { signal }),
  cancel: async (id: string): Promise<Job> => {
    const { job } = await line.call(JobService.method.cancelJob, { id });
    return job!;
  },
  retry: async (id: string): Promise<Job> => {
    const { job } = await line.call(JobService.method.retryJob, { id });
    return job!;
  },
  /** A data job of one's own that nobody works on, with the word by which to tell how it goes. */
  takeData: async (worker: string): Promise<{ job: Job; token: string } | undefined> => {
    const { job, token } = await line.call(JobService.method.takeDataJob, { worker });
    return job && { job, token };
  },
  /** False if somebody else has it now, or nobody wants it any more. */
  tellData: async (id: string, token: string, told: DataTold): Promise<boolean> => {
    const method = JobService.method.tellDataJob;
    return (await line.call(method, { id, token, ...told })).goesOn;
  },
});

/** A study is submitted as a job of the kind "tune", and stopped and resumed by cancelling and retrying that. */
export const studyCalls = (line: Line) => ({
  get: async (id: string): Promise<Study> => {
    const { study } = await line.call(StudyService.method.getStudy, { id });
    return study!;
  },
  /** Without their trials. */
  list: (): Promise<Study[]> =>
    allPages(async (pageToken) => {
      const page = await line.call(StudyService.method.listStudies, { pageToken });
      return { items: page.studies, next: page.nextPageToken };
    }),
  addTrials: async (id: string, trials: number): Promise<Study> => {
    const { study } = await line.call(StudyService.method.addTrials, { id, trials });
    return study!;
  },
});

export const queueCalls = (line: Line) => ({
  list: async (): Promise<Queue[]> => (await line.call(JobService.method.listQueues, {})).queues,
  set: async (name: string, change: QueueInit): Promise<Queue> => {
    const { queue } = await line.call(JobService.method.setQueue, { ...change, name });
    return queue!;
  },
  delete: (name: string) => line.call(JobService.method.deleteQueue, { name }),
});
