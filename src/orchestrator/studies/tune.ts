// Jobs that tune: each runs a study, whose trials are jobs that train. It holds no room of its own and is charged nothing; its
// trials wait in the same queue under the same owner.

import { fail, hasCode } from "../../core/errors.ts";
import type { SessionId } from "../../core/ids.ts";
import { trialsIn, withMore } from "../../tuning/study.ts";
import type { Context } from "../context.ts";
import type { JobKind, JsonObject, Observation, Prepared, Uses } from "../jobs/kinds.ts";
import type { JobRecord } from "../records/jobs.ts";
import { key } from "../records/store-keys.ts";
import type { StudyRecord, TrialRecord } from "../records/studies.ts";
import { deleteSession, type SessionNeeds } from "../sessions/sessions.ts";
import { StudyCare, type StudyCareNeeds } from "./study-care.ts";
import { networksOf, parseStudySpec } from "./study-spec.ts";

export interface TuneNeeds extends SessionNeeds, StudyCareNeeds {}

export class TuneKind implements JobKind {
  readonly name = "tune";
  readonly care: StudyCare;
  readonly #needs: TuneNeeds;

  constructor(needs: TuneNeeds) {
    this.#needs = needs;
    this.care = new StudyCare(needs.context, needs);
  }

  validate(spec: JsonObject): JsonObject {
    parseStudySpec(spec);
    return spec;
  }

  uses(spec: JsonObject): Uses {
    const asked = parseStudySpec(spec);
    const networks = networksOf(asked);
    const { initialState } = asked.train as { initialState?: string };
    return {
      ...(networks[0] !== undefined && { network: networks[0] }),
      networks,
      ...(initialState && { source: initialState }),
    };
  }

  async prepare(job: JobRecord): Promise<Prepared> {
    const { mirror } = this.#needs.context;
    const asked = parseStudySpec(job.spec);
    for (const network of networksOf(asked))
      if (!(await mirror.read(key.network(network))))
        fail("not_found", `there is no network ${network}: create it with \`dcnr network create FILE\``);
    const { dataset } = asked.train as { dataset?: string };
    if (dataset && !(await mirror.read(key.dataset(dataset))))
      fail("not_found", `there is no dataset ${dataset}: add it with \`dcnr dataset add\``);
    await mirror.update(key.study(job.id), (current) => (current ? undefined : { id: job.id, ...asked }));
    return { coordinates: true };
  }

  async start(): Promise<void> {}

  async observe(job: JobRecord): Promise<Observation> {
    const record = await this.recordOf(job);
    if (!(await this.care.advance(job, record))) return { state: "running", progress: this.progress(job) };
    const best = this.care.best(record);
    if (!best) return { state: "failed", reason: "none of its trials came to a result: `dcnr tune show` says why" };
    return { state: "done", result: this.#result(record, best) };
  }

  #result({ study }: StudyRecord, best: TrialRecord): Record<string, string> {
    const steps = Math.max(...Object.keys(best.values).map(Number));
    return {
      trial: String(best.number),
      [study.metric]: String(best.values[String(steps)]),
      steps: String(steps),
      settings: JSON.stringify(best.settings),
      session: this.sessionOf(best) ?? "",
    };
  }

  sessionOf({ job }: Pick<TrialRecord, "job">): SessionId | undefined {
    return job && this.#needs.context.mirror.get(key.job(job))?.session;
  }

  /** Steps that were trained of those that would be if nobody were stopped. */
  progress({ id }: JobRecord): number {
    const record = this.#needs.context.mirror.get(key.study(id));
    if (!record) return 0;
    const ended = this.care.trialsOf(id).filter(({ status }) => status !== "open").length;
    return Math.min(1, ended / trialsIn(record.study));
  }

  suspend({ id }: JobRecord): Promise<boolean> {
    return this.care.halt(id, "its study was stopped");
  }

  /** Its trials go on once it runs. */
  async revive(): Promise<void> {}

  async ended(job: JobRecord): Promise<void> {
    if (job.status !== "done") {
      await this.care.halt(job.id, "its study has ended");
      return;
    }
    const record = await this.recordOf(job);
    if (record.keep === "all") return;
    const best = this.care.best(record);
    for (const trial of this.care.trialsOf(job.id)) {
      const session = trial.number === best?.number ? undefined : this.sessionOf(trial);
      if (session === undefined || this.#needs.context.mirror.get(key.session(session))?.status === "deleted") continue;
      try {
        await deleteSession(this.#needs, session, trial.job);
      } catch (thrown) {
        if (!hasCode(thrown, "not_found")) throw thrown;
      }
    }
  }

  async forgotten({ id }: JobRecord): Promise<void> {
    const { mirror } = this.#needs.context;
    for (const { number } of this.care.trialsOf(id)) await mirror.remove(key.trial(id, number), () => true);
    await mirror.remove(key.study(id), () => true);
  }

  async recordOf({ id }: Pick<JobRecord, "id">): Promise<StudyRecord> {
    const { mirror } = this.#needs.context;
    const found = mirror.get(key.study(id)) ?? (await mirror.read(key.study(id)));
    return found ?? fail("not_found", `job ${id} is no study: \`dcnr tune list\` shows them`);
  }

  /** More trials, whether it still runs or is done. */
  async add(context: Context, job: JobRecord, more: number): Promise<void> {
    await this.recordOf(job);
    if (job.status === "failed" || job.status === "cancelled")
      fail("failed_precondition", `the study was stopped: let it go on with \`dcnr tune resume ${job.id}\` first`);
    await context.mirror.update(key.study(job.id), (current) =>
      current ? { ...current, study: withMore(current.study, more) } : undefined,
    );
    await this.#needs.jobs().reopen(job, `${more} more trials`);
    this.#needs.jobs().care.touch(job.id);
  }
}
