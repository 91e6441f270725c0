// One line of the list of what a PNode is to host, as the PNode uses it.

import type { SessionId, VNodeId } from "../core/ids.ts";
import type { Assignment as ProtoAssignment } from "../protocol/gen/dcnr/v1/pnode_pb.ts";

export interface Assignment {
  readonly session: SessionId;
  readonly vnode: VNodeId;
  readonly epoch: number;
  /** Who has hosted the VNode without a break since this epoch goes on; any other starts at the line. */
  readonly since: number;
  /** The recovery line to start from. */
  readonly line: number;
  /** SHA-256 of the state's blob; empty where the state follows from the seed. */
  readonly state: string;
  readonly replica: number;
  /** Grows when the session goes back to an earlier line: who started before starts anew. */
  readonly turn: number;
  /** It answers instead of learning. */
  readonly serving: boolean;
}

export function fromProtoAssignment(assignment: ProtoAssignment): Assignment {
  return {
    session: assignment.session as SessionId,
    vnode: assignment.vnode as VNodeId,
    epoch: Number(assignment.epoch),
    since: Number(assignment.since),
    line: Number(assignment.line),
    state: assignment.state,
    replica: assignment.replica,
    serving: assignment.serving,
    turn: Number(assignment.turn),
  };
}

export function hostKey(session: string, vnode: string): string {
  return `${session}/${vnode}`;
}
