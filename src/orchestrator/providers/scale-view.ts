// The network as the autoscaler sees it: work that waits for room, machines that came from providers, and what could come.

import { demandOfMemory } from "../../scheduler/demand.ts";
import type { Demand } from "../../scheduler/jobs.ts";
import type { ScaleMachine, ScaleView, WaitingWork } from "../../scheduler/scale-types.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { Scheduling } from "../jobs/scheduling.ts";
import { costOf, type InstanceRecord, isThere, type ProviderRecord } from "../records/providers.ts";
import type { WorkloadRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { ownersWanted, vnodeRecordsOf, workloadsIn } from "../records/workloads.ts";
import { constraintsOf } from "../workloads/recovery.ts";
import { isBlocked, lossPerHour, nothingLearned } from "./learned.ts";

export interface ScaleViewNeeds {
  readonly capacity: Capacity;
  readonly scheduling: Scheduling;
  /** How long a machine has had nothing to do; undefined while it has. */
  idleMs(instance: InstanceRecord): number | undefined;
}

export function scaleView(context: Context, needs: ScaleViewNeeds): ScaleView {
  const { mirror, world } = context;
  const nowMs = world.clock.wallMs();
  const providers = mirror.under(prefix.providers);
  const instances = mirror.under(prefix.instances);
  return {
    nodes: Array.from(needs.capacity.fleet.nodes()),
    machines: instances.filter(isThere).map((one) => machineOf(one, needs)),
    offers: providers.flatMap((provider) => offersOf(provider, nowMs)),
    providers: providers.map((provider) => ({
      name: provider.name,
      ...provider.limits,
      spent: spentBy(provider, instances, nowMs),
      sinceStartMs: nowMs - provider.lastStartWallMs,
      isRemoving: provider.removing === true,
    })),
    waiting: [...waitingJobs(needs.scheduling), ...waitingWorkloads(context)],
  };
}

export function spentBy({ name, spent }: ProviderRecord, instances: readonly InstanceRecord[], nowMs: number): number {
  return instances.filter((one) => one.provider === name).reduce((sum, one) => sum + costOf(one, nowMs), spent);
}

export function bootMsOf(
  { learned }: ProviderRecord,
  { name, bootSeconds }: { name: string; bootSeconds: number },
): number {
  return learned[name]?.bootMs ?? bootSeconds * 1_000;
}

function machineOf(instance: InstanceRecord, needs: ScaleViewNeeds): ScaleMachine {
  const { id, provider, offer, status, pnode } = instance;
  const state = status === "wanted" || status === "started" ? "coming" : status === "joined" ? "up" : "draining";
  const idleMs = state === "up" ? needs.idleMs(instance) : undefined;
  return {
    ...{ id, provider, offer: offer.name, state, pricePerHour: offer.pricePerHour },
    ...(pnode && state !== "coming" && status !== "ending" && { pnode }),
    ...(idleMs !== undefined && { idleMs }),
  };
}

function offersOf(provider: ProviderRecord, nowMs: number) {
  return provider.found
    .filter(({ name }) => !isBlocked(provider.learned[name] ?? nothingLearned, nowMs))
    .map((offer) => ({
      ...{ provider: provider.name, name: offer.name, cores: offer.cores, memoryBytes: offer.memoryBytes },
      gpus: Array.from({ length: offer.gpus }, () => offer.gpuMemoryBytes),
      ...{ pricePerHour: offer.pricePerHour, region: offer.region, most: offer.most },
      lossPerHour: lossPerHour(provider.learned[offer.name] ?? nothingLearned, offer),
      bootMs: bootMsOf(provider, offer),
    }));
}

/** Quotas, credits and other jobs are nothing that a machine could help with. */
function waitingJobs(scheduling: Scheduling): WaitingWork[] {
  const { view, decisions } = scheduling.outlook();
  const pending = new Map(view.pending.map((job) => [job.id, job]));
  return Array.from(decisions.waits).flatMap(([id, { reason }]): WaitingWork[] => {
    const job = pending.get(id);
    if (!job?.demand || !["room", "never", "behind"].includes(reason.code)) return [];
    const expectedMs = reason.code === "room" && reason.atMs !== undefined ? reason.atMs - view.nowMs : undefined;
    return [{ id, demand: job.demand, policy: job.policy, ...(expectedMs !== undefined && { expectedMs }) }];
  });
}

/** Replicas of served models, and sessions that nobody queued. */
function waitingWorkloads({ mirror }: Context): WaitingWork[] {
  return workloadsIn(mirror).flatMap((workload): WaitingWork[] => {
    if (workload.status !== "waiting") return [];
    const job = mirror.get(key.session(workload.id))?.job;
    if (job !== undefined && mirror.get(key.job(job))?.status !== "running") return [];
    const demand = unplacedOf(mirror, workload);
    const { numerics: engine, bits = 0 } = workload.identity;
    const requirements = constraintsOf(workload.requirements);
    return [{ id: workload.id, demand, policy: { bits, engine, numericsClass: workload.numericsClass, requirements } }];
  });
}

function unplacedOf(mirror: Context["mirror"], workload: WorkloadRecord): Demand {
  const missing = Array.from(vnodeRecordsOf(mirror, workload).values()).flatMap(({ memoryBytes, members }) =>
    Array.from({ length: Math.max(0, ownersWanted(workload) - members.length) }, () => memoryBytes),
  );
  return demandOfMemory(missing);
}
