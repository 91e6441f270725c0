// One line of the list of what a PNode is to host, as the PNode uses it.

import type { ReplicaId, SessionId, VNodeId } from "../core/ids.ts";
import type { Assignment as ProtoAssignment } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import { lineOf, type ToldLine } from "./told-line.ts";

interface Assigned {
  readonly vnode: VNodeId;
  readonly epoch: number;
  /** Who has hosted the VNode without a break since this epoch goes on; any other starts anew. */
  readonly since: number;
}

/** A VNode that answers. */
export interface ServingAssignment extends Assigned {
  /** The replica of a served model that it belongs to. */
  readonly session: ReplicaId;
}

/** A VNode that learns. */
export interface Assignment extends Assigned {
  readonly session: SessionId;
  /** The recovery line to start from. */
  readonly line: number;
  /** SHA-256 of the state's blob; empty where the state follows from the seed. */
  readonly state: string;
  readonly replica: number;
  /** Grows when the session goes back to an earlier line: who started before starts anew. */
  readonly turn: number;
  /** What is checked below the line. */
  readonly drawn: ToldLine["drawn"];
  readonly rounds: ToldLine["rounds"];
  /** In which it computes, where each lane has its own; empty elsewhere. */
  readonly numericsClass: string;
  /** In which lanes learn together, there. */
  readonly commonClass: string;
  /** What GPUs of its class came to in its graphs, where one has told so (rounding.ts). */
  readonly rounding: string;
}

export function learningOf(assignments: readonly ProtoAssignment[]): Assignment[] {
  return assignments.flatMap((assignment): Assignment[] => {
    const { work, replica } = assignment;
    if (work.case !== "learning") return [];
    const { state, numericsClass, commonClass, rounding } = work.value;
    const session = assignment.session as SessionId;
    const own = { session, replica, state, numericsClass, commonClass, rounding };
    return [{ ...assignedOf(assignment), ...own, ...lineOf(work.value) }];
  });
}

export function answeringOf(assignments: readonly ProtoAssignment[]): ServingAssignment[] {
  return assignments.flatMap((assignment): ServingAssignment[] =>
    assignment.work.case === "answering"
      ? [{ ...assignedOf(assignment), session: assignment.session as ReplicaId }]
      : [],
  );
}

function assignedOf({ vnode, epoch, since }: ProtoAssignment): Assigned {
  return { vnode: vnode as VNodeId, epoch: Number(epoch), since: Number(since) };
}

export function hostKey(session: string, vnode: string): string {
  return `${session}/${vnode}`;
}
