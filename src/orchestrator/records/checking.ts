// Records of checking what machines computed: statements, intervals and their audits, standings.

import type { OrchestratorId, PNodeId, ReplicaId, SessionId, VNodeId } from "../../core/ids.ts";
import type { Statement } from "../../trust/statement.ts";

export interface DrawnInterval {
  readonly vnode: VNodeId;
  readonly from: number;
  readonly to: number;
}

export interface Certificate {
  readonly trusted: number;
  readonly strangers: number;
  readonly nobody: number;
  /** The step root at `final`. */
  readonly root: string;
}

/** A statement with whoever made it. */
export interface Stated {
  readonly pnode: PNodeId;
  readonly turn: number;
  readonly statement: Statement;
  /** VNodes that share weights with it, of the same machine: what passed between them is stated nowhere, so they are repeated together (trust/seams.ts). */
  readonly beside?: readonly Premise[];
  /** In an audit: it follows from something else than what is repeated. It may confirm what comes out, and is not wrong if it differs. */
  readonly apart?: true;
}

/** What an interval of a VNode begins with. */
export interface Premise {
  readonly vnode: string;
  readonly before: string;
  readonly inputs: string;
}

/** What is known of a machine's results; it outlives the PNode's own record. */
export interface StandingRecord {
  readonly pnode: PNodeId;
  /** Intervals found right, or final, since its last fault. */
  readonly right: number;
  /** Intervals of its own that were repeated, and how many it repeated for others. */
  readonly audited: number;
  readonly audits: number;
  readonly last?: { readonly wallMs: number; readonly story: string };
  readonly faults: readonly FaultRecord[];
  /** An operator vouches for it: it decides disputes. */
  readonly trusted?: boolean;
  /** Why it gets no work; empty reasons do not occur. */
  readonly barred?: {
    readonly kind: "doubt" | "quarantined" | "banned";
    readonly reason: string;
    readonly wallMs: number;
  };
  /** Numerics classes in which it computes other bits than the rest. */
  readonly excluded: readonly string[];
  /** Its next intervals are checked for sure: somebody could not show what it was sent. */
  readonly due: number;
  /** When it was last let back in after it had been barred. */
  readonly readmittedWallMs?: number;
}

export interface FaultRecord {
  readonly wallMs: number;
  readonly kind: FaultKind;
  /** How many intervals were found right before it. */
  readonly after: number;
  readonly story: string;
  /** Repeats it; empty where that would show nothing. */
  readonly command: string;
  /** When the work that it is about had been done: what was done before an earlier fault was noted is one offence with that. */
  readonly doneWallMs?: number;
  /** Of a seam: the machine at its other end. */
  readonly with?: PNodeId;
}

/**
 * `answer`: answered wrongly, and rightly when it was asked again. `seam`: the machine at the other end says something else of what passed, and nobody can
 * tell which of the two is right. `withholding`: did not store what others need to repeat work. `silence`: did not answer when it was asked to repeat its own.
 */
export type FaultKind = "hardware" | "class" | "lie" | "equivocation" | "silence" | "withholding" | "answer" | "seam";

/** One checkpoint interval of a session that is checked, from when the line passed it until it is final. */
export interface IntervalRecord {
  readonly session: SessionId;
  readonly from: number;
  readonly to: number;
  readonly turn: number;
  /** The line has not passed it: two ends or two owners contradict each other there. */
  readonly stuck?: string;
  /** Blob with all statements about it, which is what was drawn by; empty while it is stuck. */
  readonly statements: string;
  /** Of its last step. */
  readonly root: string;
  /** The draw, as anybody can verify it; base64. */
  readonly draw: string;
  readonly owners: Readonly<Record<string, PNodeId>>;
  readonly audits: Readonly<Record<string, AuditRecord>>;
  /** Where somebody was found wrong: everything above this line is computed again, in this turn. */
  readonly repair?: RepairPlan;
  readonly openedWallMs: number;
  /** The session's by then. */
  readonly restarts?: number;
}

export interface RepairPlan {
  readonly line: number;
  readonly turn: number;
  readonly because: string;
  /** The session's when it was planned: if more has become final since, it is planned anew. */
  readonly final?: number;
  /** Those who lied: their pay that has not vested is lost, and of some their bond. */
  readonly convicts?: readonly { readonly pnode: PNodeId; readonly bond: boolean }[];
  /** What others had earned above the line. */
  readonly losses?: readonly { readonly pnode: PNodeId; readonly credits: number }[];
  /** Owners that lose a VNode, so that the same does not happen again. */
  readonly lapses?: readonly { readonly pnode: PNodeId; readonly vnode: VNodeId }[];
}

export interface AuditRecord {
  /** What is checked: more than one where owners contradict each other. */
  readonly stated: readonly Stated[];
  readonly tasks: readonly AuditTask[];
  /** All inputs are in the blob store. */
  readonly ready: boolean;
  readonly outcome?: AuditOutcome;
  /** Those whose results were wrong, and what was found about them. */
  readonly accused: readonly Accused[];
}

export interface AuditOutcome {
  /** `lost`: what went in is gone, and the session is one in which everything is checked: it is computed again. */
  readonly kind: "right" | "wrong" | "unchecked" | "lost";
  readonly by: "trusted" | "strangers" | "nobody";
  readonly reason: string;
  /** What is right (trust/statement.ts `resultOf`), if somebody found out. */
  readonly result: string;
  readonly wallMs: number;
  /** Owners without whose messages it could not be repeated: their VNodes go elsewhere. */
  readonly lapses?: readonly { readonly pnode: PNodeId; readonly vnode: VNodeId }[];
}

export interface AuditTask {
  readonly pnode: PNodeId;
  /** `repeat`: by somebody whose result was wrong. `measure`: how far it was off. */
  readonly role: "audit" | "repeat" | "measure";
  readonly trusted: boolean;
  readonly sinceWallMs: number;
  /** For `measure`: the state to compare with; for `repeat`: whom it is about is the PNode itself. */
  readonly against?: string;
  readonly result?: string;
  readonly after?: string;
  readonly distance?: number;
  /** Why there will be no result. */
  readonly gaveUp?: string;
  /** It said itself that it could not, which may be because a blob is lost; else it was not heard of any more. */
  readonly wasUnable?: true;
  /** What is listed does not make up the interval: it says that nobody can repeat it. */
  readonly isImpossible?: boolean;
}

export interface Accused {
  readonly pnode: PNodeId;
  readonly of: "statement" | "audit" | "delivery";
  readonly result: string;
  /** The state that it came to, where it is stored. */
  readonly after: string;
  readonly verdict?: FaultKind | "cleared";
  readonly story?: string;
  /** Its standing says so by now. */
  readonly told?: boolean;
}

/** Somebody who repeats an answer now, and may read the model for that as long as the orchestrator that asked lives. */
export interface AnswerTask {
  readonly pnode: PNodeId;
  readonly orchestrator: OrchestratorId;
  readonly incarnation: string;
  /** Among those of this process of it. */
  readonly number: number;
}

/** What came of checking a replica's answers. */
export interface AnswerChecksRecord {
  readonly replica: ReplicaId;
  readonly right: number;
  readonly wrong: number;
  /** Drawn, and nobody could repeat them. */
  readonly unchecked: number;
  /** Of all these, prompts of the network's own. */
  readonly canaries: number;
  /** Machines that have answered one of those here before anybody else's: newcomers answer nobody before. */
  readonly proved: readonly PNodeId[];
  readonly tasks: readonly AnswerTask[];
  readonly last?: { readonly wallMs: number; readonly story: string };
}

/** An answer that was wrong, kept so that it can be repeated. */
export interface FindingRecord {
  readonly id: string;
  readonly wallMs: number;
  readonly model: string;
  readonly replica: ReplicaId;
  readonly pnode: PNodeId;
  readonly story: string;
  /** What decides what was right. */
  readonly work: {
    readonly definition: string;
    readonly numerics: string;
    readonly states: Readonly<Record<string, string>>;
    readonly weights: string;
  };
  /** The question as it was asked (GenerateTokensRequest as JSON), and the answer. */
  readonly asked: string;
  readonly answer: readonly number[];
  readonly finish: string;
}
