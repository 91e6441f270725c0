// Which machines were lost a moment ago. Lines break and come back, so that nobody can repeat an answer just now does not mean that nobody
// will in a moment: a machine that is alone with an orchestrator for a second is not believed for that.

import { Recent } from "../../core/caches/recent.ts";
import type { PNodeId } from "../../core/ids.ts";
import type { Context } from "../context.ts";

/** As long as newcomers are asked again where nobody can tell whether they are right. */
const latelyMs = 30_000;
const lostKept = 1_000;

export class LatelyLost {
  readonly #context: Context;
  readonly #lostMs = new Recent<PNodeId, number>(lostKept);

  constructor(context: Context) {
    this.#context = context;
    context.mirror.on("pnode", (now, before) => {
      if (now?.status === "lost" && before?.status === "online")
        this.#lostMs.set(now.id, context.world.clock.monotonicMs());
    });
  }

  has(pnode: PNodeId): boolean {
    const lostMs = this.#lostMs.get(pnode);
    return lostMs !== undefined && this.#context.world.clock.monotonicMs() - lostMs < latelyMs;
  }
}
