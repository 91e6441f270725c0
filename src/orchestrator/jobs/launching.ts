// Starts what a job runs, in this order: room on all PNodes that were chosen, then quota, then the job's record (this is the
// point from which it runs), then owners, then the session's record. Whoever dies on the way leaves claims that anybody
// sweeps, or a job that runs and whose session is not started yet, which its care makes up for.

import type { Start } from "../../scheduler/jobs.ts";
import type { Decision } from "../../scheduler/placement/types.ts";
import type { Amounts } from "../../scheduler/quota.ts";
import type { Context } from "../context.ts";
import { isQueued, type JobRecord } from "../records/jobs.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { vnodeRecordsOf } from "../records/workloads.ts";
import { restarted } from "../sessions/sessions.ts";
import { nextFree } from "../workloads/next-free.ts";
import type { Placing } from "../workloads/placing.ts";
import { createVNodes } from "../workloads/vnode-records.ts";
import { amountsOf } from "./amounts.ts";
import type { JobSessions } from "./job-sessions.ts";
import type { JobKinds } from "./kinds.ts";
import { lived } from "./life.ts";
import type { Quotas } from "./quotas.ts";

export interface LaunchNeeds {
  readonly placing: Placing;
  readonly quotas: Quotas;
  readonly kinds: JobKinds;
  readonly jobSessions: JobSessions;
}

export type Launched =
  | { readonly launched: true }
  /** `amounts`: a bound said no to as much as its placement takes. `reason`: it found no room after all. */
  | { readonly launched: false; readonly amounts?: Amounts; readonly reason?: string };

export class Launching {
  readonly #context: Context;
  readonly #needs: LaunchNeeds;

  constructor(context: Context, needs: LaunchNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  async launch(seen: JobRecord, kept: Start["kept"]): Promise<Launched> {
    const { kinds } = this.#needs;
    let committed: JobRecord | undefined;
    let refused: Amounts | undefined;
    const commit = async (decisions: readonly Decision[]) => {
      const amounts = amountsOf(seen, new Set(decisions.map(({ pnode }) => pnode)).size);
      const found = await this.#commit(seen, amounts);
      if (found === "quota") refused = amounts;
      else committed = found;
      return committed !== undefined;
    };
    const reason = seen.session === undefined ? void (await commit([])) : await this.#place(seen, kept, commit);
    if (committed) {
      await kinds.get(seen.kind).start(committed);
      return { launched: true };
    }
    return { launched: false, ...(refused && { amounts: refused }), ...(reason && { reason }) };
  }

  /** Why there is no place for it; undefined if there was one. */
  async #place(
    job: JobRecord,
    kept: Start["kept"],
    commit: (decisions: readonly Decision[]) => Promise<boolean>,
  ): Promise<string | undefined> {
    const { mirror } = this.#context;
    const { jobSessions, placing } = this.#needs;
    const session = await this.#ready(job);
    if (!session) return "its session is not ready yet";
    const plan = await jobSessions.plan(session);
    await createVNodes(this.#context, session, plan, session.initialStates ?? {});
    const { unplaced } = await placing.place({
      plan,
      kept,
      commit,
      nextFree: (kind) => nextFree(mirror, session.id, kind),
      now: () => {
        const workload = mirror.get(key.session(session.id));
        const now = mirror.get(key.job(job.id));
        if (workload?.status !== "created" || now?.epoch !== job.epoch || !isQueued(now)) return undefined;
        return { workload, records: vnodeRecordsOf(mirror, workload) };
      },
    });
    return unplaced.find(({ copy }) => copy === 0)?.reason;
  }

  /** One that gave way is put back to where it waits for its first owners, once all former ones are gone. */
  async #ready({ session: id }: JobRecord): Promise<SessionRecord | undefined> {
    const { mirror } = this.#context;
    const session = id && (await mirror.read(key.session(id)));
    if (!session || session.status === "created") return session || undefined;
    if (session.status !== "suspended") return undefined;
    if (Array.from(vnodeRecordsOf(mirror, session).values()).some(({ members }) => members.length > 0))
      return undefined;
    const { record } = await mirror.update(key.session(session.id), (current) =>
      current?.status === "suspended"
        ? { ...current, status: "created" as const, reason: "", ...restarted(current) }
        : undefined,
    );
    return record?.status === "created" ? record : undefined;
  }

  async #commit(seen: JobRecord, amounts: Amounts): Promise<JobRecord | "quota" | undefined> {
    const { mirror, world, events } = this.#context;
    const { quotas } = this.#needs;
    const { id, queue, owner } = seen;
    const epoch = seen.epoch + 1;
    if (!(await quotas.claim(id, { queue, owner, epoch, amounts }))) return "quota";
    const wallMs = world.clock.wallMs();
    const { record, written } = await mirror.update(key.job(id), (current) => {
      if (!current || !isQueued(current) || current.epoch !== seen.epoch) return undefined;
      const { yielding: _, ...job } = current;
      const detail = current.status === "suspended" ? "goes on from where it was" : "";
      return {
        ...lived(job, { wallMs, kind: "started", detail }),
        status: "running" as const,
        epoch,
        amounts,
        runs: [...job.runs, { fromMs: wallMs }],
      };
    });
    if (written && record) {
      events.emit("info", "job.started", `job ${id} starts`, record.session ? { session: record.session } : {});
      return record;
    }
    // Somebody else was faster and runs it under the same epoch: what was claimed is what that run stands on.
    const runs = record?.status === "running" && record.epoch === epoch;
    if (!runs) await quotas.giveBack({ id, queue, epoch });
    return undefined;
  }
}
