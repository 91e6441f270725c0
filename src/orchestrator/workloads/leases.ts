// Who works on a workload. A lease names an orchestrator and its incarnation; it holds for as long as that one
// is alive (presence.ts), so leases cost no writes of their own. They spare double work; safety never rests on them.

import type { WorkloadId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Presence } from "../fleet/orchestrators/presence.ts";
import type { LeaseRecord } from "../records/machines.ts";
import { key } from "../records/store-keys.ts";
import { called } from "../records/workloads.ts";

/** No workload can be called so. */
const cohortMark = "cohort:";
const providerMark = "provider:";

export class Leases {
  readonly #context: Context;
  readonly #presence: Presence;

  constructor(context: Context, presence: Presence) {
    this.#context = context;
    this.#presence = presence;
  }

  /** True if this orchestrator holds the workload's lease, taking it if nobody alive does. */
  hold(workload: WorkloadId): Promise<boolean> {
    return this.#hold(workload, called(workload), workload);
  }

  /** The same for the jobs of a cohort of queues: two who schedule them would only be in each other's way. */
  holdCohort(cohort: string): Promise<boolean> {
    return this.#hold(`${cohortMark}${cohort}`, `the queues of ${cohort}`);
  }

  /** The same for what a provider runs: one starts and ends machines there. */
  holdProvider(provider: string): Promise<boolean> {
    return this.#hold(`${providerMark}${provider}`, `provider ${provider}`);
  }

  /** The same for a served model that gets and loses replicas. */
  holdModel(model: string): Promise<boolean> {
    return this.#hold(`model:${model}`, `model ${model}`);
  }

  /** The same for who observes how available machines are. */
  holdReport(): Promise<boolean> {
    return this.#hold("report:availability", "the report on availability");
  }

  async #hold(name: string, what: string, session?: WorkloadId): Promise<boolean> {
    const known = this.#context.mirror.get(key.lease(name));
    if (known && this.#mine(known)) return true;
    if (known && this.#presence.alive(known.holder, known.incarnation)) return false;
    const { record, written } = await this.#context.mirror.update(key.lease(name), (current) => {
      if (current && (this.#mine(current) || this.#presence.alive(current.holder, current.incarnation)))
        return undefined;
      return { holder: this.#context.id, incarnation: this.#context.incarnation, token: (current?.token ?? 0) + 1 };
    });
    if (written && record && record.token > 1)
      this.#context.events.emit("info", "lease.taken", `${this.#context.id} takes over ${what}`, {
        ...(session && { session }),
      });
    return record !== undefined && this.#mine(record);
  }

  /** As far as this orchestrator knows; takes nothing. */
  isHeldHere(workload: WorkloadId): boolean {
    const known = this.#context.mirror.get(key.lease(workload));
    return known !== undefined && this.#mine(known);
  }

  holderOf(workload: WorkloadId): string | undefined {
    return this.#context.mirror.get(key.lease(workload))?.holder;
  }

  async forget(workload: WorkloadId): Promise<void> {
    await this.#context.mirror.remove(key.lease(workload));
  }

  #mine(record: LeaseRecord): boolean {
    return record.holder === this.#context.id && record.incarnation === this.#context.incarnation;
  }
}
