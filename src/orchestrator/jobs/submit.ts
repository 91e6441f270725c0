// Jobs as people submit them: checked, made ready where they need nobody, and written once under the hash of owner and key,
// so that whoever asks again after a lost answer finds the same jobs.

import { fail, messageOf } from "../../core/errors.ts";
import { canonicalJson, sha256 } from "../../core/hash.ts";
import { type JobId, parseId } from "../../core/ids.ts";
import type { JobSpec } from "../../protocol/gen/dcnr/v1/job_pb.ts";
import { type JobClass, jobClasses } from "../../scheduler/jobs.ts";
import type { Context } from "../context.ts";
import { jobCalled } from "../records/fresh.ts";
import { isQueued, type JobRecord } from "../records/jobs.ts";
import { key, prefix } from "../records/store-keys.ts";
import { requirementsOf } from "../sessions/settings.ts";
import type { JobKinds, JsonObject, Uses } from "./kinds.ts";
import { inWavesOfNeeds } from "./needs.ts";
import { findQueue } from "./queues.ts";

export interface SubmitNeeds {
  readonly context: Context;
  readonly kinds: JobKinds;
}

/** Of one request. */
const jobsMax = 1_000;
/** Those of one request stand in line in its order; the last of them still comes before the next millisecond. */
const apartMs = 1 / jobsMax;
const needsMax = 100;
const specLengthMax = 64 * 1024;
/** Jobs are listed by the hundred, with their keys. */
const keyLengthMax = 300;
/** A year. */
const limitSecondsMax = 366 * 24 * 3600;

interface Draft extends Omit<JobRecord, "needs"> {
  /** Ids, or names of other drafts. */
  readonly needs: readonly string[];
}

/** In the order of the request. */
export async function submitJobs(
  needs: SubmitNeeds,
  owner: string,
  specs: readonly JobSpec[],
  more: Pick<JobRecord, "trial" | "restAfter"> = {},
): Promise<JobRecord[]> {
  if (specs.length === 0) fail("invalid_argument", "there is no job in the request");
  if (specs.length > jobsMax) fail("invalid_argument", `${specs.length} jobs at once: at most ${jobsMax} are taken`);
  const drafts = specs.map((spec, index) => ({ ...draftOf(needs, owner, spec, index), ...more }));
  refuseTwins(drafts);
  refuseFull(needs.context, drafts);
  const known = new Map<string, JobRecord>();
  for (const wave of inWavesOfNeeds(drafts)) {
    // Side by side, since a store writes what comes together at the price of one.
    const made = await Promise.allSettled(
      wave.map(async (draft) => create(needs, await resolved(needs.context, draft, known))),
    );
    for (const [index, one] of made.entries()) {
      if (one.status === "rejected") throw one.reason;
      const { name } = wave[index] as Draft;
      known.set(one.value.id, one.value);
      if (name !== "") known.set(name, one.value);
    }
  }
  return drafts.map(({ id }) => known.get(id) as JobRecord);
}

export function jobIdOf(owner: string, jobKey: string): JobId {
  return `job-${sha256(canonicalJson([owner, jobKey])).slice(0, 16)}` as JobId;
}

function draftOf({ context, kinds }: SubmitNeeds, owner: string, asked: JobSpec, index: number): Draft {
  const { world, mirror } = context;
  const name = asked.name === "" ? "" : parseId<string>(asked.name, "the job's name");
  const called = name === "" ? "the job" : `job ${name}`;
  const jobClass = jobClasses.find((one) => one === (asked.priority || "normal")) as JobClass | undefined;
  if (!jobClass)
    fail("invalid_argument", `${called}: there is no priority "${asked.priority}": choose ${jobClasses.join(", ")}`);
  if (asked.needs.length > needsMax)
    fail("invalid_argument", `${called} needs ${asked.needs.length} others: at most ${needsMax}`);
  const { timeLimitSeconds: seconds } = asked;
  if (!(seconds >= 0 && seconds <= limitSecondsMax))
    fail(
      "invalid_argument",
      `${called}: a time limit of ${seconds} s is not possible: from 0 (none) to ${limitSecondsMax}`,
    );
  const wallMs = world.clock.wallMs();
  const deadlineWallMs = Number(asked.deadlineWallMs);
  if (deadlineWallMs < 0 || (deadlineWallMs > 0 && deadlineWallMs <= wallMs))
    fail("invalid_argument", `${called}: its deadline has passed already`);
  if (asked.key.length > keyLengthMax)
    fail("invalid_argument", `${called}: its key has ${asked.key.length} letters, at most ${keyLengthMax} are taken`);
  const jobKey = asked.key || Buffer.from(world.chance.bytes(12)).toString("base64url");
  const kind = kinds.get(asked.kind);
  const spec = kind.validate(parseSpec(asked.spec, called));
  const { network } = kind.uses(spec);
  return {
    id: jobIdOf(owner, jobKey),
    kind: asked.kind,
    name,
    owner,
    key: jobKey,
    queue: findQueue(mirror, asked.queue).name,
    class: jobClass,
    spec,
    ...(network !== undefined && { network }),
    needs: asked.needs,
    requirements: requirementsOf({ requirements: asked.requirements, maxRuntimeSeconds: 0 }),
    limitMs: seconds * 1000,
    deadlineWallMs,
    status: "pending",
    epoch: 0,
    reason: "",
    submittedWallMs: wallMs + index * apartMs,
    endedWallMs: 0,
    runs: [],
    preemptions: 0,
    life: [{ wallMs, kind: "submitted", detail: "" }],
  };
}

function parseSpec(text: string, called: string): JsonObject {
  if (text.length > specLengthMax)
    fail("invalid_argument", `${called}: its spec has ${text.length} characters, at most ${specLengthMax} are taken`);
  try {
    const parsed: unknown = JSON.parse(text === "" ? "{}" : text);
    if (parsed !== null && typeof parsed === "object" && !Array.isArray(parsed)) return parsed as JsonObject;
  } catch (thrown) {
    fail("invalid_argument", `${called}: its spec is no JSON: ${messageOf(thrown)}`);
  }
  return fail("invalid_argument", `${called}: its spec must be an object`);
}

function refuseTwins(drafts: readonly Draft[]): void {
  const ids = new Set<string>();
  const names = new Set<string>();
  for (const { id, name, key: jobKey } of drafts) {
    if (ids.has(id)) fail("invalid_argument", `two jobs of the request have the key "${jobKey}"`);
    if (name !== "" && names.has(name)) fail("invalid_argument", `two jobs of the request are called ${name}`);
    ids.add(id);
    names.add(name);
  }
}

/** What is there already takes no more room. Counted on what this orchestrator knows: others may add some at the same time. */
function refuseFull({ mirror }: Context, drafts: readonly Draft[]): void {
  const more = drafts.filter(({ id }) => !mirror.get(key.job(id)));
  const queued = mirror.under(prefix.jobs).filter(isQueued);
  for (const [queue, own] of Map.groupBy(more, (draft) => draft.queue)) {
    const { pendingMax } = findQueue(mirror, queue);
    const waiting = queued.reduce((sum, job) => sum + (job.queue === queue ? 1 : 0), 0);
    if (waiting + own.length <= pendingMax) continue;
    const room = `${waiting} jobs wait in queue ${queue}, which takes ${pendingMax}`;
    fail("resource_exhausted", `${room}: none of the ${own.length} was taken; submit them later, or to another queue`);
  }
}

async function resolved({ mirror }: Context, draft: Draft, known: ReadonlyMap<string, JobRecord>): Promise<JobRecord> {
  const needs: JobId[] = [];
  for (const need of draft.needs) {
    const id = parseId<JobId>(need, "the needed job");
    const found = known.get(need) ?? mirror.get(key.job(id)) ?? (await mirror.read(key.job(id)));
    if (!found)
      fail(
        "not_found",
        `${draft.name || "the job"} needs ${need}, which is neither a job nor the name of one in the request`,
      );
    if (found.status === "failed" || found.status === "cancelled")
      fail(
        "failed_precondition",
        `${draft.name || "the job"} needs job ${found.id}, which ${found.status === "failed" ? "failed" : "was cancelled"}: retry that first`,
      );
    needs.push(found.id);
  }
  return { ...draft, needs };
}

async function create({ context, kinds }: SubmitNeeds, job: JobRecord): Promise<JobRecord> {
  const { mirror, events } = context;
  const before = mirror.get(key.job(job.id));
  if (before) return sameOrFail(before, job);
  const ready = job.needs.every((id) => mirror.get(key.job(id))?.status === "done");
  const wanted: JobRecord = ready ? { ...job, ...(await kinds.get(job.kind).prepare(job)), prepared: true } : job;
  const { record, written } = await mirror.update(key.job(job.id), (current) => (current ? undefined : wanted));
  if (!written || !record) return sameOrFail(record as JobRecord, job);
  const about = record.session ? { session: record.session } : {};
  events.emit(
    "info",
    "job.submitted",
    `job ${job.id} (${job.kind}) is submitted to queue ${job.queue} by ${job.owner}`,
    about,
  );
  return record;
}

/** The same key means the same job; another spec under it is a mistake of whoever asks. */
function sameOrFail(before: JobRecord, now: JobRecord): JobRecord {
  const same = before.kind === now.kind && canonicalJson(before.spec) === canonicalJson(now.spec);
  if (same) return before;
  return fail("already_exists", `job ${before.id} has the key "${now.key}" and another spec: use another key`);
}

/** What a job as somebody asks for it would use. */
export function usesOf(kinds: JobKinds, { kind, spec }: JobSpec): Uses {
  const found = kinds.get(kind);
  return found.uses(found.validate(parseSpec(spec, "the job")));
}

/** Rights are asked by id, so whatever changes a job takes nothing else. */
export async function jobById({ mirror }: Context, text: string): Promise<JobRecord> {
  const id = parseId<JobId>(text, "the job");
  const found = mirror.get(key.job(id)) ?? (await mirror.read(key.job(id)));
  return found ?? fail("not_found", `there is no job ${id}: \`dcnr job list\` shows them`);
}

/** By id, or by a name that only one job has, or only one that has not ended. */
export async function findJob({ mirror }: Context, text: string): Promise<JobRecord> {
  const found = await jobCalled(mirror, parseId<JobId>(text, "the job"));
  if (found) return found;
  const named = mirror.under(prefix.jobs).filter(({ name }) => name === text);
  if (named.length > 1) fail("failed_precondition", `${named.length} jobs are called ${text}: say the id of one`);
  return fail("not_found", `there is no job ${text}: \`dcnr job list\` shows them`);
}
