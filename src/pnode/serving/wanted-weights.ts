// Which weights a served VNode computes with, and whose states they come from.

import type { Sha256 } from "../../core/ids.ts";
import type { VNodePlan } from "../../network/plan.ts";
import type { StateReader } from "../../states/reader.ts";
import type { WantedWeight } from "../../vnode/serving/weights.ts";
import type { ServingContext } from "./serving-context.ts";

export async function wantedWeights(
  context: ServingContext,
  vnode: VNodePlan,
  openState: (state: Sha256) => Promise<StateReader>,
): Promise<WantedWeight[]> {
  const wanted: WantedWeight[] = [];
  if (vnode.parameters.length > 0) {
    const state = await openState(context.stateOf(vnode.id));
    for (const { name, shape, precision } of vnode.parameters)
      wanted.push({ name, stored: name, shape, precision, state });
  }
  // Tied weights come from the publisher's own state: they never change while a model serves.
  for (const edge of context.plan.edges) {
    if (edge.kind !== "tie" || edge.to !== vnode.id) continue;
    const state = await openState(context.stateOf(edge.from));
    const published = context.vnode(edge.from).parameters.find(({ name }) => name === edge.fromPort);
    const precision = published?.precision ?? "float32";
    wanted.push({ name: edge.toPort, stored: edge.fromPort, shape: edge.shape, precision, state });
  }
  return wanted;
}
