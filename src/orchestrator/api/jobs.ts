// JobService: jobs and queues for people and programs.

import { fail } from "../../core/errors.ts";
import { parseId } from "../../core/ids.ts";
import { Subject } from "../../protocol/gen/dcnr/v1/access_pb.ts";
import { JobService, type JobSpec, type QuotaLimits } from "../../protocol/gen/dcnr/v1/job_pb.ts";
import { type CallContext, type Roles, type ServedService, service } from "../../protocol/network.ts";
import type { Limits } from "../../scheduler/quota.ts";
import type { Context } from "../context.ts";
import type { DataKind } from "../jobs/data.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { allQueues, cohortOf, deleteQueue, findQueue, setQueue } from "../jobs/queues.ts";
import { findJob, jobById, submitJobs, usesOf } from "../jobs/submit.ts";
import { isEnded, type JobRecord, localOwner } from "../records/jobs.ts";
import { key, prefix } from "../records/store-keys.ts";
import { belongingOf } from "../rights/belongings.ts";
import { checkBelonging, isLimited } from "../rights/limits.ts";
import type { Bell } from "../views/watching.ts";
import { eventView, pause } from "./fleet.ts";
import { page } from "./pages.ts";

export interface JobApiNeeds {
  readonly context: Context;
  readonly jobs: Jobs;
  readonly dataKind: DataKind;
  readonly bell: Bell;
}

const watchFrameMs = 200;
const watchIdleMs = 1_000;

export function jobService(needs: JobApiNeeds): ServedService {
  const { context, jobs, dataKind } = needs;
  const { mirror } = context;
  const submit = { context, kinds: jobs.kinds };
  const queueNamed = (name: string) => jobs.views.queue(findQueue(mirror, name), cohortOf(mirror, name));
  return service(JobService, {
    submitJobs: async (request, { caller }) => {
      const owner = ownerOf(caller, request.owner);
      await checkUses(needs, caller.roles, request.jobs);
      const records = await submitJobs(submit, owner, request.jobs);
      return { jobs: records.map((record) => jobs.views.job(record)) };
    },
    getJob: async ({ id }) => ({ job: jobs.views.job(await findJob(context, id)) }),
    listJobs: async (request) => {
      const { queue, owner, statuses } = request;
      const wanted = (job: JobRecord) =>
        (queue === "" || job.queue === queue) &&
        (owner === "" || job.owner === owner) &&
        (statuses.length === 0 || statuses.includes(job.status));
      const found = page(mirror.under(prefix.jobs).filter(wanted), newestFirst, request);
      return { jobs: found.items.map((job) => jobs.views.job(job, false)), nextPageToken: found.nextPageToken };
    },
    listJobLogs: async ({ id }) => ({ events: await logsOf(needs, id) }),
    watchJob: ({ id }, call) => watch(needs, id, call.signal),
    cancelJob: async ({ id }, { caller }) => {
      const job = await jobById(context, id);
      return { job: jobs.views.job(await jobs.cancel(job, caller.roles?.owner || localOwner)) };
    },
    retryJob: async ({ id }) => ({ job: jobs.views.job(await jobs.retry(await jobById(context, id))) }),
    takeDataJob: async ({ worker }, { caller }) => {
      const taken = await dataKind.take(ownerOf(caller, ""), worker);
      return taken ? { job: jobs.views.job(taken.job), token: taken.token } : {};
    },
    tellDataJob: async ({ id, token, ...told }) => ({
      goesOn: await dataKind.tell((await jobById(context, id)).id, token, told),
    }),
    listQueues: async () => ({ queues: allQueues(mirror).map(({ rules, cohort }) => jobs.views.queue(rules, cohort)) }),
    setQueue: async ({ name, owners, ...change }) => {
      const { nominal, borrowMax, lendMax, ownerMax, ...rest } = change;
      await setQueue(context, name, {
        ...rest,
        nominal: nominal && limits(nominal),
        borrowMax: borrowMax && limits(borrowMax),
        lendMax: lendMax && limits(lendMax),
        ownerMax: ownerMax && limits(ownerMax),
        owners: Object.fromEntries(Object.entries(owners).map(([owner, own]) => [owner, limits(own)])),
      });
      return { queue: queueNamed(name) };
    },
    deleteQueue: async ({ name }) => {
      await deleteQueue(context, name);
      return {};
    },
  });
}

/** Names of pages count upwards, and people want the newest first. */
export function newestFirst({ submittedWallMs, id }: JobRecord): string {
  return `${String(Number.MAX_SAFE_INTEGER - Math.round(submittedWallMs)).padStart(16, "0")} ${id}`;
}

function limits({ cores, gpus, memoryBytes, jobs }: QuotaLimits): Limits {
  return {
    ...(cores !== undefined && { cores }),
    ...(gpus !== undefined && { gpus }),
    ...(memoryBytes !== undefined && { memoryBytes }),
    ...(jobs !== undefined && { jobs }),
  };
}

/** Whoever shows a key is its owner; only administrators and callers without one may say that it is somebody else. */
function ownerOf({ roles }: CallContext["caller"], asked: string): string {
  const own = roles?.owner || localOwner;
  if (asked === "" || asked === own) return own;
  if (roles && roles.key !== "" && !roles.scopes.includes("admin"))
    fail("permission_denied", `your key is ${own}'s: it cannot submit jobs as ${asked}`);
  return parseId<string>(asked, "the owner");
}

/** A key that is limited to some networks or to its owner's things makes no jobs of others. */
async function checkUses(
  { context, jobs }: JobApiNeeds,
  roles: Roles | undefined,
  specs: readonly JobSpec[],
): Promise<void> {
  if (!isLimited(roles)) return;
  const { ownOnly: _, ...networksOnly } = roles;
  for (const spec of specs) {
    const { network, networks = [], source } = usesOf(jobs.kinds, spec);
    for (const one of networks) checkBelonging(networksOnly, { network: one }, one);
    if (network !== undefined) checkBelonging(networksOnly, { network }, network);
    const found = source === undefined ? undefined : await belongingOf(context.mirror, Subject.SOURCE, source);
    if (found) checkBelonging(roles, found, source ?? "");
    if (network === undefined && found === undefined && roles.networks !== undefined)
      fail(
        "permission_denied",
        "your key is limited to some networks: say the session or model that the job is about by its id",
      );
  }
}

async function logsOf({ context }: JobApiNeeds, id: string) {
  const job = await findJob(context, id);
  const own = job.life.map(({ wallMs, kind, detail }) => ({
    wallMs: BigInt(Math.round(wallMs)),
    level: kind === "failed" ? "warn" : "info",
    kind: `job.${kind}`,
    message: detail === "" ? kind : `${kind}: ${detail}`,
    session: job.session ?? "",
  }));
  const session = job.session ? context.events.list({ session: job.session, limit: 500 }) : [];
  const told = session.filter(({ kind }) => !kind.startsWith("job.")).map(eventView);
  return [...own, ...told].sort((a, b) => Number(a.wallMs - b.wallMs));
}

async function* watch({ context, jobs, bell }: JobApiNeeds, id: string, signal: AbortSignal) {
  const { mirror, world, tasks } = context;
  const first = await findJob(context, id);
  while (!signal.aborted && !tasks.stopped) {
    const job = mirror.get(key.job(first.id)) ?? first;
    yield { job: jobs.views.job(job) };
    if (isEnded(job)) return;
    await pause(context, watchFrameMs, signal);
    await bell.wait(world.timers, watchIdleMs, signal, tasks.signal);
  }
}
