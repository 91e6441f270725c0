// What the controller asks of each kind of workload. Everything else about VNodes and their owners is alike for all.

import type { VNodeId } from "../../core/ids.ts";
import type { PlacementPlan, Policy } from "../../scheduler/placement/types.ts";
import type { WorkloadRecord } from "../records/sessions.ts";
import type { StoredState } from "../records/vnodes.ts";
import type { VNodeRecords } from "../records/workloads.ts";

export interface Care<R extends WorkloadRecord = WorkloadRecord> {
  /** Its VNodes as placement sees them. */
  plan(record: R): Promise<PlacementPlan>;
  /** What the records of its VNodes begin with, by VNode: states of step 0 that do not follow from a seed. */
  initialStates(record: R): Readonly<Record<string, StoredState>>;
  /** Before its VNodes are placed, by whoever holds the lease: it may find that the workload has ended. */
  tend(record: R): Promise<void>;
  /** Where its parts have each a class, those that keep to one. */
  classes(record: R, records: VNodeRecords): Policy["classes"];
  /** Whether it goes on although these of its VNodes have no place. */
  goesOnWithout(record: R, vnodes: readonly VNodeId[]): boolean;
  /** Whether its VNodes may be placed by now; what was decided elsewhere meanwhile is made the store's first. */
  settle(record: R): Promise<boolean>;
  /** Ended, without owners by now. */
  ended(record: R, records: VNodeRecords, holder: boolean): Promise<void>;
  /** Deleted: takes away what it has beside its own record and those of its VNodes, which are gone already. */
  erase(record: R): Promise<void>;
}
