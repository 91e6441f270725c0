// Two workloads that each hold a part of what both need, after a machine was lost, would wait for each other for ever. So
// whoever lacks something gives back all that it has once somebody more important lacks something too: that one becomes
// whole, and the other goes on at its recovery line when there is room for all of it.

import type { WorkloadId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { WorkloadRecord } from "../records/sessions.ts";
import { called, vnodeRecordsOf, workloadsIn } from "../records/workloads.ts";
import { byImportance } from "./placing.ts";

/** A machine that is lost is often back, or replaced by another, within this time. */
const patienceMs = 15_000;

export class Yielding {
  readonly #context: Context;
  /** Who has lacked something, as far as this orchestrator saw, and since when. */
  readonly #sinceMs = new Map<WorkloadId, number>();

  constructor(context: Context) {
    this.#context = context;
  }

  whole(id: WorkloadId): void {
    this.#sinceMs.delete(id);
  }

  /** For whom it should give its room back; undefined if it may keep it. `again` is called when it is worth asking again. */
  for(workload: WorkloadRecord, again: () => void): WorkloadRecord | undefined {
    const { mirror, world } = this.#context;
    const { id } = workload;
    const nowMs = world.clock.monotonicMs();
    const sinceMs = this.#sinceMs.get(id);
    if (sinceMs === undefined || nowMs - sinceMs < patienceMs) {
      if (sinceMs === undefined) {
        this.#sinceMs.set(id, nowMs);
        world.timers.after(patienceMs, again);
      }
      return undefined;
    }
    const holds = Array.from(vnodeRecordsOf(mirror, workload).values()).some(({ members }) => members.length > 0);
    if (!holds) return undefined;
    return workloadsIn(mirror)
      .filter((other) => other.status === "waiting" && other.id !== id && byImportance(other, workload) < 0)
      .sort(byImportance)[0];
  }

  /** Tells that it was done. */
  told({ id }: WorkloadRecord, to: WorkloadRecord): void {
    this.#sinceMs.delete(id);
    const sentence = `${called(id)} gives its room back, since ${called(to.id)} waits for some too and comes first; it goes on later where it was`;
    this.#context.events.emit("warn", "room.yielded", sentence, { session: id });
  }
}
