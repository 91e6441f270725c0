// Queues as people make and change them. All queues of a cohort are one record; a queue that nobody put into a cohort is
// alone in one of its own name. The queue "default" is there without any record, and bounds nobody until it is set.

import { fail } from "../../core/errors.ts";
import { parseId } from "../../core/ids.ts";
import { type Limits, type QueueRules, queueRulesDefault, type Resource, resources } from "../../scheduler/quota.ts";
import type { Context } from "../context.ts";
import { type CohortRecord, isEnded } from "../records/jobs.ts";
import type { Mirror } from "../records/mirror.ts";
import { key, prefix } from "../records/store-keys.ts";

export const defaultQueue = "default";

/** Queues that one cohort's record can hold beside its claims. */
const queuesMax = 100;
const ownersMax = 200;

export function cohortOf(mirror: Mirror, queue: string): string {
  for (const { name, queues } of mirror.under(prefix.cohorts)) if (Object.hasOwn(queues, queue)) return name;
  return queue;
}

export function queueOf(mirror: Mirror, name: string): QueueRules | undefined {
  const found = mirror.get(key.cohort(cohortOf(mirror, name)))?.queues[name];
  return found ?? (name === defaultQueue ? { name, ...queueRulesDefault } : undefined);
}

/** The queue, or a sentence that there is none. */
export function findQueue(mirror: Mirror, name: string): QueueRules {
  const id = parseId<string>(name || defaultQueue, "the queue");
  return (
    queueOf(mirror, id) ??
    fail("not_found", `there is no queue ${id}: dcnr queue list shows them, dcnr queue set ${id} makes it`)
  );
}

export function allQueues(mirror: Mirror): { readonly rules: QueueRules; readonly cohort: string }[] {
  const found = mirror
    .under(prefix.cohorts)
    .flatMap(({ name, queues }) => Object.values(queues).map((rules) => ({ rules, cohort: name })));
  if (!found.some(({ rules }) => rules.name === defaultQueue))
    found.push({ rules: { name: defaultQueue, ...queueRulesDefault }, cohort: defaultQueue });
  return found.sort((a, b) => (a.rules.name < b.rules.name ? -1 : 1));
}

export interface QueueChange {
  readonly cohort?: string | undefined;
  readonly nominal?: Limits | undefined;
  readonly borrowMax?: Limits | undefined;
  readonly lendMax?: Limits | undefined;
  readonly ownerMax?: Limits | undefined;
  readonly owners: Readonly<Record<string, Limits>>;
  readonly weight?: number | undefined;
  readonly pendingMax?: number | undefined;
}

/** Makes the queue or changes it: what is not said stays. */
export async function setQueue({ mirror, events }: Context, name: string, change: QueueChange): Promise<void> {
  const id = parseId<string>(name, "the queue");
  const before = cohortOf(mirror, id);
  const cohort = change.cohort === undefined ? before : parseId<string>(change.cohort || id, "the cohort");
  checkChange(id, change);
  const base = queueOf(mirror, id) ?? { name: id, ...queueRulesDefault };
  if (cohort !== before) refuseMove(mirror, id);
  await mirror.update(key.cohort(cohort), (current) => {
    const queues = current?.queues ?? {};
    if (!queues[id] && Object.keys(queues).length >= queuesMax)
      fail("resource_exhausted", `the cohort ${cohort} has ${queuesMax} queues already`);
    return {
      name: cohort,
      claims: current?.claims ?? {},
      queues: { ...queues, [id]: changed(queues[id] ?? base, change) },
    };
  });
  if (cohort !== before) await removeFrom(mirror, before, id);
  events.emit("info", "queue.set", `queue ${id} is set${cohort === id ? "" : `, in the cohort ${cohort}`}`);
}

export async function deleteQueue({ mirror, events }: Context, name: string): Promise<void> {
  const { name: id } = findQueue(mirror, name);
  const waiting = mirror.under(prefix.jobs).filter((job) => job.queue === id && !isEnded(job)).length;
  if (waiting > 0 && id !== defaultQueue)
    fail("failed_precondition", `queue ${id} has ${waiting} jobs that have not ended: wait for them, or cancel them`);
  await removeFrom(mirror, cohortOf(mirror, id), id);
  events.emit("info", "queue.deleted", `queue ${id} is deleted`);
}

/** Its jobs' claims stand in the record of the cohort that it would leave. */
function refuseMove(mirror: Mirror, id: string): void {
  const running = mirror.under(prefix.jobs).filter(({ queue, status }) => queue === id && status === "running").length;
  if (running > 0)
    fail(
      "failed_precondition",
      `queue ${id} has ${running} running jobs: it can change its cohort when they have ended`,
    );
}

async function removeFrom(mirror: Mirror, cohort: string, queue: string): Promise<void> {
  const { record } = await mirror.update(key.cohort(cohort), (current) => {
    if (!current || !Object.hasOwn(current.queues, queue)) return undefined;
    const { [queue]: _, ...queues } = current.queues;
    return { ...current, queues };
  });
  if (record && isEmpty(record)) await mirror.remove(key.cohort(cohort), isEmpty);
}

function isEmpty({ queues }: CohortRecord): boolean {
  return Object.keys(queues).length === 0;
}

function changed(rules: QueueRules, change: QueueChange): QueueRules {
  const { nominal, borrowMax, lendMax, ownerMax, weight, pendingMax } = change;
  return {
    ...rules,
    ...(nominal && { nominal }),
    ...(borrowMax && { borrowMax }),
    ...(lendMax && { lendMax }),
    ...(ownerMax && { ownerMax }),
    ...(weight !== undefined && { weight }),
    ...(pendingMax !== undefined && { pendingMax }),
    owners: { ...rules.owners, ...change.owners },
  };
}

const called: Readonly<Record<Resource, string>> = {
  cores: "cores",
  gpus: "GPUs",
  memoryBytes: "memory",
  jobs: "jobs",
};

function checkChange(queue: string, change: QueueChange): void {
  const { nominal, borrowMax, lendMax, ownerMax, owners, weight, pendingMax } = change;
  for (const [what, limits] of Object.entries({ nominal, borrowMax, lendMax, ownerMax, ...owners }))
    for (const resource of resources) {
      const value = limits?.[resource];
      if (value === undefined || (Number.isFinite(value) && value >= 0)) continue;
      fail("invalid_argument", `queue ${queue}: ${called[resource]} of ${what} is ${value}; a quota is 0 or more`);
    }
  for (const owner of Object.keys(owners)) parseId(owner, "the owner");
  if (Object.keys(owners).length > ownersMax)
    fail("invalid_argument", `at most ${ownersMax} owners have bounds of their own`);
  if (weight !== undefined && !(weight > 0 && weight <= 1_000))
    fail("invalid_argument", `queue ${queue}: the weight is ${weight}; it is more than 0 and at most 1000`);
  if (pendingMax !== undefined && pendingMax > 100_000)
    fail("invalid_argument", `queue ${queue}: at most 100000 jobs may wait, not ${pendingMax}`);
}
