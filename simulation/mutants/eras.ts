// A broken rule of eras, in worlds in which the last machines of a class go: what was stored above the line is of another class than what
// follows, and no line may be made of both.

import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { type Mutant, rewriting } from "./mutant.ts";

export const eraMutants: Readonly<Record<string, Mutant>> = {
  "begins-an-era-in-parts": {
    fault: "an era begins, and VNodes that had stored more than the line do not go back to it",
    shows: ["divergence"],
    eras: true,
    store: (view, records) =>
      rewriting(view, "vnode", (record: VNodeRecord) => {
        const before = records.vnode(record.session, record.vnode);
        if (before === undefined || (record.turn ?? 0) <= (before.turn ?? 0)) return record;
        return { ...record, durable: { ...before.durable, ...record.durable } };
      }),
  },
};
