// Ends the records of machines that are gone: soon those of newcomers that never did anything, so that nobody fills the store
// by registering keys, and after a month those of machines that had worked. Measured in looks, not in dates: an orchestrator
// that starts anew begins to count anew.

import type { PNodeId } from "../../../core/ids.ts";
import type { Context } from "../../context.ts";
import type { PNodeRecord } from "../../records/machines.ts";
import { key, prefix } from "../../records/store-keys.ts";
import { isNewcomer } from "../believed/newcomers.ts";
import type { Capacity } from "../capacity/capacity.ts";

/** Looks in a row, an hour apart. */
const newcomerLooks = 2;
const workerLooks = 30 * 24;

export class Departed {
  readonly #context: Context;
  readonly #capacity: Capacity;
  /** How often a machine was seen gone, by the attachment that it had last. */
  #seen = new Map<PNodeId, { readonly attachment: string; readonly looks: number }>();

  constructor(context: Context, capacity: Capacity) {
    this.#context = context;
    this.#capacity = capacity;
    const { tasks, timings } = context;
    tasks.every("ending records of machines that are gone", timings.departedCheckMs, () => this.look());
  }

  async look(): Promise<void> {
    const seen = new Map<PNodeId, { readonly attachment: string; readonly looks: number }>();
    const over: PNodeRecord[] = [];
    for (const record of this.#context.mirror.under(prefix.pnodes)) {
      const { id, status, attachment } = record;
      if ((status !== "lost" && status !== "left") || this.#capacity.vnodesOn(id).size > 0) continue;
      const before = this.#seen.get(id);
      const looks = (before?.attachment === attachment ? before.looks : 0) + 1;
      if (looks >= (isNewcomer(record) ? newcomerLooks : workerLooks)) over.push(record);
      else seen.set(id, { attachment, looks });
    }
    this.#seen = seen;
    for (const record of over) await forgetPNode(this.#context, record);
  }
}

/** Removes what is kept of a machine, unless it has come back meanwhile. What operators said of its key stays. */
export async function forgetPNode({ mirror }: Context, { id, attachment }: PNodeRecord): Promise<void> {
  if (!(await mirror.remove(key.pnode(id), (current) => current.attachment === attachment))) return;
  await mirror.remove(key.room(id));
}
