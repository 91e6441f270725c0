// Where a session caps how far states may move: weighs what owners want to record, and takes the VNode from whoever brings what no optimizer comes to.
// That is no lie yet: bad memory does the same. It counts as an error of the machine, and the work is nobody's.

import { messageOf } from "../../../core/errors.ts";
import type { PNodeId, Sha256 } from "../../../core/ids.ts";
import type { Context } from "../../context.ts";
import type { Rooms } from "../../fleet/capacity/rooms.ts";
import type { SessionRecord } from "../../records/sessions.ts";
import { key } from "../../records/store-keys.ts";
import type { Compiled } from "../../sessions/compiled.ts";
import type { DurableRequest, Weigh } from "../../sessions/durable.ts";
import { isLost } from "../../sessions/stored-states.ts";
import { noteFailure } from "../../workloads/failures.ts";
import type { Standings } from "../standings.ts";
import { moveBoundOf } from "./movement.ts";
import { beyondBound } from "./weighing.ts";

export interface WeigherNeeds {
  readonly compiled: Pick<Compiled, "planOf">;
  readonly standings: Pick<Standings, "fault" | "of">;
  readonly rooms: Rooms;
}

export class Weigher {
  readonly #context: Context;
  readonly #needs: WeigherNeeds;
  /** One at a time: what is compared is in memory. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(context: Context, needs: WeigherNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  readonly weigh: Weigh = async (session, { vnode, from, to, before, after }) => {
    if (session.policy.cap !== "on" || before === "") return undefined;
    const { vnodes } = await this.#needs.compiled.planOf(session.identity);
    const optimizer = vnodes.find(({ id }) => id === vnode)?.optimizer;
    const bound = optimizer && moveBoundOf(optimizer, session.identity, from, to);
    if (bound === undefined) return undefined;
    const { blobs, world } = this.#context;
    const own = this.#turn
      .catch(() => {})
      .then(() => beyondBound({ states: blobs.states, world, before: before as Sha256, after, bound }));
    this.#turn = own;
    return own.catch((thrown: unknown) => {
      // A state that is lost meanwhile is another matter, and found elsewhere.
      if (!isLost(thrown)) throw thrown;
      world.log("warn", `a state of VNode ${vnode} could not be weighed: ${messageOf(thrown)}`, {
        session: session.id,
      });
      return undefined;
    });
  };

  async refuse({ session, vnode, pnode, epoch }: DurableRequest, detail: string): Promise<void> {
    const { mirror, world } = this.#context;
    const { standings, rooms } = this.#needs;
    const fault = {
      ...({ wallMs: world.clock.wallMs(), kind: "hardware", after: standings.of(pnode as PNodeId).right } as const),
      story: `in session ${session}, VNode ${vnode}: ${detail}`,
      // What was refused is kept nowhere, so nobody can repeat it.
      command: "",
    };
    await standings.fault(pnode, fault, (mirror.get(key.session(session)) as SessionRecord).numericsClass);
    await noteFailure(this.#context, rooms, { workload: session, vnode, pnode, epoch, detail, kind: "lapsed" });
  }
}
