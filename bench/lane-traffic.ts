// What one machine with one lane of a session sends to the others, by the plan alone: gradients of steps together, what a round taught, and
// states.

import { wireBytes } from "../src/core/numbers/wire-types.ts";
import { checkpointsBetween } from "../src/network/checkpoints.ts";
import { expandLanes, paddedElements } from "../src/network/lanes.ts";
import type { Plan } from "../src/network/plan.ts";
import type { SessionIdentity, SessionPolicy } from "../src/network/settings/session.ts";

export interface LaneTraffic {
  /** Of a step in which lanes add their gradients up, and of the step at a round's end. */
  readonly stepBytes: number;
  readonly roundBytes: number;
  /** Of what a lane has to itself where it learns apart: weights and two moments. */
  readonly stateBytes: number;
}

export function laneTraffic(network: Plan, lanes: number): LaneTraffic {
  const { edges } = expandLanes(network, { lanes, sync: { every: 1, after: 1 } });
  // A part goes one way, the sum comes back the other.
  const sent = (kind: "reduce" | "outer") =>
    edges.reduce((sum, edge) => sum + (edge.kind === kind ? 2 * wireBytes(edge.wire, edge.shape) : 0), 0) / lanes;
  const weights = 4 * network.vnodes.reduce((sum, vnode) => sum + paddedElements(vnode), 0);
  return { stepBytes: sent("reduce"), roundBytes: sent("outer"), stateBytes: 3 * weights };
}

/** Bytes that a machine sends for each sample that all lanes learn from in rounds, over those while they add every gradient up. */
export function roundsOverSteps({ stepBytes, roundBytes }: LaneTraffic, every: number): number {
  return roundBytes / every / stepBytes;
}

/** Bytes of states that a lane stores for each step from `after` on, as often as the session does. */
export function storedPerStep(
  { stateBytes }: LaneTraffic,
  session: Required<Pick<SessionIdentity, "steps" | "sync">> & SessionPolicy,
): number {
  const { steps, sync } = session;
  return (stateBytes * checkpointsBetween(session, sync.after, steps)) / (steps - sync.after);
}
