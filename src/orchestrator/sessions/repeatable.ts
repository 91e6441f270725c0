// Whether others can repeat what a session's VNodes compute: what it takes is stored message by message, and listed once for each
// interval. A session whose messages are too large or too many for that does not begin: those who sent them would be blamed.

import { auditBlobBytesMax } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import { wholeLength } from "../../core/hash.ts";
import type { VNodeId } from "../../core/ids.ts";
import { wireBytes } from "../../core/numbers/wire-types.ts";
import { expandLanes, laneShare } from "../../network/lanes.ts";
import { messageShape, type Plan, type PlanEdge } from "../../network/plan.ts";
import { type SessionIdentity, type SessionPolicy, samplesOf } from "../../network/settings/session.ts";
import { bytes } from "../../scheduler/placement/constraints.ts";
import { listedMax } from "../../trust/lists.ts";

/** What makes messages of an edge smaller. */
const remedies: Readonly<Record<PlanEdge["kind"], string>> = {
  activation: "choose more microbatches, so that each is smaller",
  tie: "keep VNodes that share weights on one machine (`colocate_group`)",
  reduce: "choose more lanes",
  outer: "choose more lanes",
};

/** `network`: without lanes. */
export function checkRepeatable(network: Plan, identity: SessionIdentity, policy: SessionPolicy): void {
  if (policy.assurance === undefined || policy.assurance === "none") return;
  const plan = expandLanes(network, identity);
  checkMessages(plan, identity);
  checkLists(plan, identity, policy);
}

function checkMessages({ edges, colocations }: Plan, identity: SessionIdentity): void {
  const samples = samplesOf(identity);
  // What stays on one machine for sure is stored nowhere.
  const isSilent = ({ kind, from, to }: PlanEdge) =>
    kind === "tie" && colocations.some((group) => group.includes(from) && group.includes(to));
  for (const edge of edges) {
    if (isSilent(edge)) continue;
    const shape = messageShape(edge, samples);
    const length = wholeLength({ dtype: edge.wire, shape }, wireBytes(edge.wire, shape));
    if (length > auditBlobBytesMax)
      fail(
        "invalid_argument",
        `a message on ${edge.id} has ${bytes(length)}, and only up to ${bytes(auditBlobBytesMax)} can be stored for those who check it: ${remedies[edge.kind]}, or choose assurance none`,
      );
  }
}

function checkLists({ edges }: Plan, identity: SessionIdentity, { checkpointEvery }: SessionPolicy): void {
  const { microbatches, validationMicrobatches } = laneShare(identity);
  const { validateEvery } = identity;
  const validations = validateEvery > 0 ? Math.ceil(checkpointEvery / validateEvery) + 1 : 0;
  const alongActivation = checkpointEvery * microbatches + validations * validationMicrobatches;
  const counts = new Map<VNodeId, number>();
  for (const { kind, from, to } of edges)
    for (const vnode of [from, to])
      counts.set(vnode, (counts.get(vnode) ?? 0) + (kind === "activation" ? alongActivation : checkpointEvery));
  for (const [vnode, count] of counts)
    if (count > listedMax)
      fail(
        "invalid_argument",
        `up to ${count} messages come to VNode ${vnode} from one checkpoint to the next, and only ${listedMax} can be listed for those who check it: choose a smaller checkpoint_every or fewer microbatches, or assurance none`,
      );
}
