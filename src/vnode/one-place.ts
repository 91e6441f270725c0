// All VNodes of a plan in one place: the production process and numerics of each, with messages handed over at once and no
// network, store or time in between. Whoever trains so says what happens to what the processes tell.

import type { VNodeId } from "../core/ids.ts";
import type { Plan } from "../network/plan.ts";
import type { VNodeCompute } from "./compute.ts";
import type { Effect, ProcessEvent } from "./effects.ts";
import { isNumeric, performNumeric } from "./perform.ts";
import type { Process } from "./process.ts";
import { roleOf } from "./role.ts";
import { giveBack, lend, type WireTensor } from "./wire.ts";

export interface InOnePlace {
  readonly process: Process<WireTensor, VNodeId>;
  readonly compute: VNodeCompute;
}

type Told<Kind> = Extract<Effect<WireTensor, VNodeId>, { readonly kind: Kind }>;

export interface Listener {
  published(vnode: VNodeId, effect: Told<"publish">): void;
  evaluated(vnode: VNodeId, effect: Told<"publishEvaluation">): void;
  persist(vnode: VNodeId, step: number): Promise<void>;
}

/** Ends when nobody has anything left to do; whether that is the end of the training, the processes say. */
export async function runInOnePlace(
  plan: Plan,
  vnodes: ReadonlyMap<VNodeId, InOnePlace>,
  listener: Listener,
): Promise<void> {
  type Event = ProcessEvent<WireTensor, VNodeId>;
  const queue: { readonly to: VNodeId; readonly event: Promise<Event> }[] = [];
  const post = (to: VNodeId, event: Event | Promise<Event>) => queue.push({ to, event: Promise.resolve(event) });
  const sent = new WeakSet<WireTensor>();
  const perform = (vnode: VNodeId, { compute }: InOnePlace, effect: Effect<WireTensor, VNodeId>) => {
    if (isNumeric(effect)) return post(vnode, performNumeric(compute, roleOf(plan, vnode), keeping, effect));
    const handOver = (to: VNodeId, message: Told<"send">["message"]) =>
      post(to, { ...{ kind: "arrived", ...message, from: vnode }, payload: lend(message.payload) });
    switch (effect.kind) {
      case "accumulate":
        return compute.accumulate(effect.microbatch);
      case "send": {
        const { message } = effect;
        // A value for several receivers is kept for each of them, and computed once.
        if (sent.has(message.payload)) lend(message.payload);
        sent.add(message.payload);
        return handOver(message.to, message);
      }
      case "collect":
        return effect.released.forEach(giveBack);
      // Whoever only passes values on runs ahead: what came too early is asked for again.
      case "ask":
        return post(effect.whom, { kind: "asked", names: effect.names, asker: vnode });
      case "deliver":
        return handOver(effect.asker, effect.message);
      case "publish":
        return listener.published(vnode, effect);
      case "publishEvaluation":
        return listener.evaluated(vnode, effect);
      case "persist": {
        const { step } = effect;
        return post(
          vnode,
          listener.persist(vnode, step).then(() => ({ kind: "persisted", step })),
        );
      }
      default:
        return undefined;
    }
  };
  const persisted = new Map<VNodeId, number>();
  let line = 0;
  /** Nobody starts anew here: what all have stored is the line, below which they keep no messages. */
  const advance = (vnode: VNodeId, step: number) => {
    persisted.set(vnode, step);
    const least = Math.min(...[...vnodes.keys()].map((id) => persisted.get(id) ?? 0));
    if (least <= line) return;
    line = least;
    for (const id of vnodes.keys()) post(id, { kind: "lineAdvanced", line });
  };
  for (const id of vnodes.keys()) post(id, { kind: "start" });
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const one = vnodes.get(next.to) as InOnePlace;
    const event = await next.event;
    for (const effect of one.process.step(event)) perform(next.to, one, effect);
    if (event.kind === "persisted") advance(next.to, event.step);
  }
}

export const keeping = {
  keep: (tensor: WireTensor) => tensor,
  take: async (tensor: WireTensor) => tensor,
  borrow: async (tensor: WireTensor) => lend(tensor),
};
