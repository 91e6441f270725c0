// What a kind of job is. The queue knows nothing of what a job does: it asks its kind to check what somebody wrote, to
// make it ready, to start it, to say how it goes, and to stop. A new kind is one file and one line where kinds are listed
// (orchestrator.ts); a kind that is not listed is refused by name.

import { fail } from "../../core/errors.ts";
import type { SessionId } from "../../core/ids.ts";
import type { SessionRequirements } from "../../network/settings/session.ts";
import type { Demand } from "../../scheduler/jobs.ts";
import type { JobRecord } from "../records/jobs.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

/** What a job needs once it is ready. */
export interface Prepared {
  /** What the queue places for it, as a whole; absent for kinds that hold no room of their own. */
  readonly session?: SessionId;
  readonly demand?: Demand;
  /** Owners of each VNode. */
  readonly copies?: number;
  /** It only looks after other jobs. */
  readonly coordinates?: true;
  /** What its PNodes must have in the end, where the kind's own settings say more than the job's. */
  readonly requirements?: SessionRequirements;
  readonly network?: string;
}

export interface Uses {
  readonly network?: string;
  /** More of them, where it is about several. */
  readonly networks?: readonly string[];
  /** A session or model. */
  readonly source?: string;
}

export type Observation =
  | {
      readonly state: "running";
      /** 0 to 1, where it is known. */
      readonly progress?: number;
      /** It has been stopped by somebody: the queue leaves it alone until somebody lets it go on. */
      readonly held?: boolean;
      /** Why it was stopped, if whoever did it said so. */
      readonly reason?: string;
      /** It has come to where it is to be looked at: it gives its room back until it is told to go on. */
      readonly rests?: "now" | "soon";
      /** The commit said that it runs, and it does not yet. */
      readonly unstarted?: boolean;
      /** Newest step that nothing can take back; what it gives up when it gives way is what it did since. */
      readonly line?: number;
      /** It lost PNodes and has found no others for this long. */
      readonly withoutRoomMs?: number;
    }
  | { readonly state: "done"; readonly result: Readonly<Record<string, string>>; readonly reason?: string }
  | { readonly state: "failed"; readonly reason: string };

export interface JobKind {
  readonly name: string;
  /** Checks what was asked, without writing anything, and returns it as it is kept; fails with a sentence. */
  validate(spec: JsonObject): JsonObject;
  /** What it uses that is somebody's: keys may be limited to some networks, or to their owner's own things. */
  uses(spec: JsonObject): Uses;
  /** Its needs are done: makes what it will run. Asked again for the same job it makes nothing new. */
  prepare(job: JobRecord): Promise<Prepared>;
  /** It has its turn, its quota and its room: what it prepared runs from now on. Asked again, nothing more happens. */
  start(job: JobRecord): Promise<void>;
  observe(job: JobRecord): Promise<Observation>;
  /** Stops, so that it can go on later from where it was; true once it holds nothing any more. */
  suspend(job: JobRecord): Promise<boolean>;
  /** How far it is, 0 to 1, for kinds without a session. */
  progress?(job: JobRecord): number;
  /** What a job that runs stands still for, in a sentence; undefined while it gets on. */
  standsFor?(job: JobRecord): string | undefined;
  /** Its record says that it is over: cleans up. May be asked again. */
  ended?(job: JobRecord): Promise<void>;
  /** Its record is gone: whatever else was kept for it goes too. */
  forgotten?(job: JobRecord): Promise<void>;
  /** Suspended before, and wanted again by somebody: forgets what made it fail. */
  revive(job: JobRecord): Promise<void>;
}

export class JobKinds {
  readonly #kinds: ReadonlyMap<string, JobKind>;

  constructor(kinds: readonly JobKind[]) {
    this.#kinds = new Map(kinds.map((kind) => [kind.name, kind]));
  }

  get(name: string): JobKind {
    const kind = this.#kinds.get(name);
    if (kind) return kind;
    const there = Array.from(this.#kinds.keys()).join(", ");
    return fail("invalid_argument", `there is no kind of job "${name.slice(0, 40)}": choose from ${there}`);
  }
}
