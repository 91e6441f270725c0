// Deliberate faults in how jobs claim, commit and give back, each a broken store in the place of a sound one. Job worlds must
// see every one of them.

import type { CohortRecord, JobRecord } from "../../src/orchestrator/records/jobs.ts";
import type { RoomRecord } from "../../src/orchestrator/records/machines.ts";
import type { SessionRecord } from "../../src/orchestrator/records/sessions.ts";
import type { VNodeRecord } from "../../src/orchestrator/records/vnodes.ts";
import { rewriting } from "../mutants/mutant.ts";
import type { JobWorldOptions } from "./job-world.ts";

export interface JobMutant {
  readonly fault: string;
  readonly shows: RegExp;
  readonly store: NonNullable<JobWorldOptions["store"]>;
}

export const jobMutants: Readonly<Record<string, JobMutant>> = {
  "quota-weighs-nothing": {
    fault: "quota is claimed without counting what others have claimed",
    shows: /quota:/,
    store: (view) =>
      rewriting(view, "cohort", (cohort: CohortRecord) => ({
        ...cohort,
        claims: Object.fromEntries(
          Object.entries(cohort.claims).map(([id, claim]) => [
            id,
            { ...claim, amounts: { ...claim.amounts, jobs: 0 } },
          ]),
        ),
      })),
  },
  "runs-before-it-claims": {
    fault: "a job runs whose claim on quota is not there",
    shows: /has claimed none/,
    store: (view) => rewriting(view, "cohort", (cohort: CohortRecord) => ({ ...cohort, claims: {} })),
  },
  "keeps-quota-for-ever": {
    fault: "quota that was claimed is never given back nor swept",
    shows: /leak: quota|never end/,
    store: (view, seen) =>
      rewriting(view, "cohort", (cohort: CohortRecord) => ({
        ...cohort,
        claims: { ...seen.get<CohortRecord>(`cohort/${cohort.name}`)?.claims, ...cohort.claims },
      })),
  },
  "room-after-the-commit": {
    fault: "a job is committed before the room for its VNodes is claimed",
    shows: /gang:|claimed no room|never end/,
    store: (view) => rewriting(view, "room", (room: RoomRecord) => ({ ...room, claims: {} })),
  },
  "job-epoch-stands-still": {
    fault: "a job begins to run without a new epoch, so that old claims pass for new ones",
    shows: /has claimed none|leak|never end|quota:/,
    store: (view, seen) =>
      rewriting(view, "job", (job: JobRecord) => ({ ...job, epoch: seen.get<JobRecord>(`job/${job.id}`)?.epoch ?? 0 })),
  },
  "suspends-ahead-of-the-line": {
    fault: "a job that gives way is taken to be as far as its fastest VNode",
    shows: /line:/,
    store: (view, seen) =>
      rewriting(view, "session", (session: SessionRecord) => {
        if (session.status !== "suspended") return session;
        const steps = session.vnodes.flatMap((vnode) =>
          Object.keys(seen.get<VNodeRecord>(`vnode/${session.id}/${vnode}`)?.durable ?? {}).map(Number),
        );
        return { ...session, line: Math.max(session.line, ...steps) + session.policy.checkpointEvery };
      }),
  },
};
