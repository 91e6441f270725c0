// Runs a study: writes down what its trials came to, asks what follows (src/tuning/plan.ts), and carries it out. Each act is
// one conditional write or one that can be asked for again, so whoever dies on the way is succeeded by whoever looks next.

import { create } from "@bufbuild/protobuf";
import { messageOf, outlookOf } from "../../core/errors.ts";
import { checkpointBefore } from "../../network/checkpoints.ts";
import { JobSpecSchema } from "../../protocol/gen/dcnr/v1/job_pb.ts";
import { planStudy } from "../../tuning/plan.ts";
import { bestOf, type NewTrial, type Trial } from "../../tuning/trial.ts";
import type { Context } from "../context.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { isEnded, type JobRecord } from "../records/jobs.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { StudyRecord, TrialRecord } from "../records/studies.ts";
import type { Metrics } from "../views/metrics.ts";
import { trialSpec } from "./study-spec.ts";

export interface StudyCareNeeds {
  readonly metrics: Metrics;
  /** Of the same orchestrator; it knows this one as a kind of job. */
  readonly jobs: () => Jobs;
}

/** Each round makes trials that the next one lets train. */
const roundsMax = 8;
/** What the last step came to may reach the store a moment after the session's end. */
const reportMs = 10_000;

export class StudyCare {
  readonly #context: Context;
  readonly #needs: StudyCareNeeds;
  /** Since when the last value of a trial has been missing, as this orchestrator saw it. */
  readonly #missingSinceMs = new Map<string, number>();

  constructor(context: Context, needs: StudyCareNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  trialsOf(study: string): TrialRecord[] {
    return this.#context.mirror.under(prefix.trialsOf(study)).sort((a, b) => a.number - b.number);
  }

  /** True once nothing is left to do. */
  async advance(job: JobRecord, record: StudyRecord): Promise<boolean> {
    for (let round = 0; round < roundsMax; round++) {
      for (const trial of this.trialsOf(record.id)) {
        if (trial.status === "open") await this.#collect(record, trial);
        if (trial.status === "stopped") await this.#finish(trial);
      }
      const plan = planStudy(record.study, this.trialsOf(record.id).map(seenTrial));
      if (plan.done) return true;
      for (const one of plan.create) await this.#create(record, one);
      for (const [number, reason] of plan.stop) await this.#stop(record, number, reason);
      await this.#train(job, record, plan.until);
      if (plan.create.length === 0 && plan.stop.size === 0) return false;
    }
    return false;
  }

  async #create({ id }: StudyRecord, { number, settings, parent }: NewTrial): Promise<void> {
    const wanted: TrialRecord = {
      study: id,
      number,
      settings,
      ...(parent && { parent }),
      status: "open",
      reason: "",
      attempt: 0,
      values: {},
      curve: {},
    };
    await this.#context.mirror.update(key.trial(id, number), (current) => (current ? undefined : wanted));
  }

  /** Copies are begun before anybody goes on: a state is there as long as whoever made it stands still. */
  async #train(job: JobRecord, record: StudyRecord, until: ReadonlyMap<number, number>): Promise<void> {
    const trials = [...until].flatMap(([number, step]) => {
      const trial = this.#context.mirror.get(key.trial(record.id, number));
      return trial?.status === "open" ? [{ trial, step }] : [];
    });
    for (const { trial, step } of trials) if (!trial.job) await this.#begin(job, record, trial, step);
    for (const { trial, step } of trials) if (trial.job) await this.#goOn(record, trial, step);
  }

  async #begin(job: JobRecord, record: StudyRecord, trial: TrialRecord, step: number): Promise<void> {
    const { study } = record;
    const { number, parent, attempt } = trial;
    const name = job.name === "" ? job.id : job.name;
    const { gpuMemoryBytes, memoryBytes, ...requirements } = job.requirements;
    const spec = create(JobSpecSchema, {
      kind: "train",
      name: `${name}-${number}`.slice(0, 100),
      queue: job.queue,
      priority: job.class,
      requirements: { ...requirements, gpuMemoryBytes: BigInt(gpuMemoryBytes), memoryBytes: BigInt(memoryBytes) },
      key: `${record.id}/${number}/${attempt}`,
      spec: JSON.stringify(trialSpec(record, trial, parent && this.#sessionOf(record, parent.trial))),
    });
    try {
      const begun = await this.#needs.jobs().submitTrial(job.owner, spec, {
        trial: { study: record.id, number },
        ...(step < study.most && { restAfter: step - (parent?.step ?? 0) }),
      });
      await this.#change(trial, (current) => ({ ...current, job: begun.id }));
    } catch (thrown) {
      if (outlookOf(thrown) !== "final") throw thrown;
      await this.#change(trial, (current) => ({ ...current, status: "failed", reason: messageOf(thrown) }));
    }
  }

  #sessionOf({ id }: StudyRecord, number: number): string {
    const { mirror } = this.#context;
    const trial = mirror.get(key.trial(id, number));
    return (trial?.job && mirror.get(key.job(trial.job))?.session) ?? "";
  }

  async #goOn(record: StudyRecord, trial: TrialRecord, step: number): Promise<void> {
    const { mirror } = this.#context;
    const job = trial.job && mirror.get(key.job(trial.job));
    const session = job ? mirror.get(key.session(job.session ?? "")) : undefined;
    // It trains, waits for its turn, or was stopped by somebody, who lets it go on.
    if (!job?.held || session?.policy.restAfter === undefined) return;
    const { restAfter } = session.policy;
    const local = step - (trial.parent?.step ?? 0);
    if (local < restAfter) return;
    // It has been where it is sent: what it came to there was lost, unless it is known by now.
    const times = { ...session.identity, ...session.policy };
    if (local === restAfter && session.line < checkpointBefore(times, local)) return;
    if (local === restAfter && (await this.#measured(record, trial, job)).values[String(step)] !== undefined) return;
    await this.#needs.jobs().goOn(job, step < record.study.most ? local : undefined);
  }

  /** Writes down what a trial came to since it was last looked at. */
  async #collect(record: StudyRecord, trial: TrialRecord): Promise<void> {
    const { mirror } = this.#context;
    const job = trial.job && (mirror.get(key.job(trial.job)) ?? (await mirror.read(key.job(trial.job))));
    if (!trial.job) return;
    if (!job) return this.#change(trial, (current) => ({ ...current, status: "failed", reason: "its job is gone" }));
    if (job.status === "failed" || job.status === "cancelled") {
      if (trial.halted) return this.#revive(trial, job);
      const reason = job.reason || `its job was ${job.status}`;
      return this.#change(trial, (current) => ({ ...current, status: "failed", reason }));
    }
    if (job.status !== "done" && !job.held) return;
    const found = await this.#measured(record, trial, job);
    const { most } = record.study;
    const isWhole = found.values[String(most)] !== undefined;
    if (job.status === "done" && !isWhole) return this.#lost(record, trial, job);
    if (Object.keys(found.values).length === Object.keys(trial.values).length) return;
    this.#missingSinceMs.delete(trial.job);
    await this.#change(trial, (current) => ({ ...current, ...found, status: isWhole ? "done" : current.status }));
  }

  /** What a trial came to by now: where it was to be looked at, and on the way there. */
  async #measured(
    { study }: StudyRecord,
    trial: TrialRecord,
    job: JobRecord,
  ): Promise<Pick<TrialRecord, "values" | "curve">> {
    const { values, curve } = { values: { ...trial.values }, curve: { ...trial.curve } };
    const session = this.#context.mirror.get(key.session(job.session ?? ""));
    if (!session) return { values, curve };
    const from = trial.parent?.step ?? 0;
    const { restAfter = session.identity.steps } = session.policy;
    for (const { step, value } of await this.#needs.metrics.all(session.id, [study.metric], 1)) {
      // Beyond where it was to rest nothing counts, should it have gone further.
      if (step <= restAfter && (from + step) % study.least === 0) curve[String(from + step)] ??= value;
      if (step === restAfter) values[String(from + step)] ??= value;
    }
    return { values, curve };
  }

  /** Its job is done, and nobody knows what its last step came to: it ended early, or whoever knew died; then it trains again. */
  async #lost({ study }: StudyRecord, trial: TrialRecord, job: JobRecord): Promise<void> {
    const { mirror, world, tasks } = this.#context;
    const session = mirror.get(key.session(job.session ?? ""));
    if (!session || session.line < session.identity.steps || session.status === "deleted") {
      const reason = session?.reason || `it ended after step ${session ? session.line : 0} of ${study.most}`;
      return this.#change(trial, (current) => ({ ...current, status: "failed", reason }));
    }
    const nowMs = world.clock.monotonicMs();
    const sinceMs = this.#missingSinceMs.get(job.id) ?? nowMs;
    this.#missingSinceMs.set(job.id, sinceMs);
    if (nowMs - sinceMs < reportMs) {
      tasks.after(reportMs / 10, () => this.#needs.jobs().care.touch(trial.study));
      return;
    }
    this.#missingSinceMs.delete(job.id);
    return this.#change(trial, ({ job: _, ...current }) => ({ ...current, attempt: current.attempt + 1 }));
  }

  /** The record says so first: whoever looks next makes up for a job that was not ended yet. */
  async #stop({ id }: StudyRecord, number: number, reason: string): Promise<void> {
    const trial = this.#context.mirror.get(key.trial(id, number));
    if (!trial) return;
    await this.#change(trial, (current) => ({ ...current, status: "stopped", reason }));
    await this.#finish({ ...trial, reason });
  }

  async #finish({ job: id, reason }: TrialRecord): Promise<void> {
    const { mirror } = this.#context;
    const job = id && (mirror.get(key.job(id)) ?? (await mirror.read(key.job(id))));
    if (job && !isEnded(job)) await this.#needs.jobs().finish(job, `stopped: ${reason}`);
  }

  async #change(trial: TrialRecord, change: (current: TrialRecord) => TrialRecord): Promise<void> {
    await this.#context.mirror.update(key.trial(trial.study, trial.number), (current) =>
      current?.status === "open" && current.job === trial.job ? change(current) : undefined,
    );
  }

  best(record: StudyRecord): TrialRecord | undefined {
    const trials = this.trialsOf(record.id);
    const best = bestOf(record.study, trials.map(seenTrial));
    return trials.find(({ number }) => number === best?.number);
  }

  /** Whatever of it still runs or waits ends, and is marked as what goes on with it; true once nothing does. */
  async halt(study: string, reason: string): Promise<boolean> {
    const { mirror } = this.#context;
    let halted = true;
    for (const trial of this.trialsOf(study)) {
      const job = trial.job && (await mirror.read(key.job(trial.job)));
      if (!job || isEnded(job)) continue;
      halted = false;
      await this.#change(trial, (current) => ({ ...current, halted: true }));
      await this.#needs.jobs().care.end(job, "cancelled", reason);
    }
    return halted;
  }

  async #revive(trial: TrialRecord, job: JobRecord): Promise<void> {
    // While the study is being stopped nothing of it goes on.
    if ((await this.#context.mirror.read(key.job(trial.study)))?.status !== "running") return;
    await this.#needs.jobs().retry(job);
    await this.#change(trial, ({ halted: _, ...current }) => current);
  }
}

export function seenTrial({ number, settings, values, status, parent }: TrialRecord): Trial {
  return {
    number,
    settings,
    values: new Map(Object.entries(values).map(([step, value]) => [Number(step), value])),
    failed: status === "failed",
    stopped: status === "stopped",
    ...(parent && { parent }),
  };
}
