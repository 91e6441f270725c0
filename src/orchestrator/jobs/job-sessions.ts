// The sessions that jobs run: started, watched, suspended and revived for whichever kind of job has one. Each is a
// conditional write of the session's record; owners come and go by the controller and by launching.ts.

import { checkpointBefore } from "../../network/checkpoints.ts";
import type { PlacementPlan } from "../../scheduler/placement/types.ts";
import type { Context } from "../context.ts";
import type { JobRecord } from "../records/jobs.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { isLive, vnodeRecordsOf } from "../records/workloads.ts";
import type { SessionCare } from "../sessions/session-care.ts";
import { clearFailures, suspendSession } from "../sessions/sessions.ts";
import type { Metrics } from "../views/metrics.ts";
import type { Steps } from "../views/steps.ts";
import type { Controller } from "../workloads/controller.ts";
import type { Observation } from "./kinds.ts";

export interface JobSessionNeeds {
  readonly sessions: SessionCare;
  readonly controller: Controller;
  readonly metrics: Metrics;
  readonly steps: Steps;
}

/** PNodes tell what they measured with their next heartbeats. */
const awaitedMsMax = 20_000;

type SessionObservation = Exclude<Observation, { state: "done" }> | { readonly state: "done"; readonly reason: string };

export class JobSessions {
  readonly #context: Context;
  readonly #needs: JobSessionNeeds;
  /** Since when a session of a running job has been without room, as this orchestrator saw it. */
  readonly #waitingSinceMs = new Map<string, number>();
  /** Since when what came out of a session that is to rest has been waited for. */
  readonly #awaitedSinceMs = new Map<string, number>();

  constructor(context: Context, needs: JobSessionNeeds) {
    this.#context = context;
    this.#needs = needs;
  }

  plan(session: SessionRecord): Promise<PlacementPlan> {
    return this.#needs.sessions.plan(session);
  }

  sessionOf(job: JobRecord): SessionRecord | undefined {
    return job.session === undefined ? undefined : ownOf(job, this.#context.mirror.get(key.session(job.session)));
  }

  async #readSession(job: JobRecord): Promise<SessionRecord | undefined> {
    return job.session === undefined
      ? undefined
      : ownOf(job, await this.#context.mirror.read(key.session(job.session)));
  }

  /** Its owners are written, or will be by whoever cares for a session that runs. */
  async start(job: JobRecord): Promise<void> {
    const { mirror, world, events } = this.#context;
    if (job.session === undefined) return;
    // It may have been cancelled since it was committed.
    const now = await mirror.read(key.job(job.id));
    if (now?.status !== "running" || now.epoch !== job.epoch) return;
    const { record, written } = await mirror.update(key.session(job.session), (current) => {
      // Somebody may have suspended it meanwhile.
      if (ownOf(job, current)?.status !== "created" || !current) return undefined;
      const startedWallMs = current.startedWallMs || world.clock.wallMs();
      return { ...current, status: "running" as const, reason: "", startedWallMs };
    });
    if (!written || !record) return;
    const from = record.line > 0 ? ` from step ${record.line}` : "";
    events.emit("info", "session.started", `session ${record.id} starts${from}`, { session: record.id });
    this.#needs.controller.touch(record.id);
  }

  async observe(job: JobRecord): Promise<SessionObservation> {
    // Whoever has just taken the job over may not have heard of its session yet: the store knows whether there is one.
    const session = this.sessionOf(job) ?? (await this.#readSession(job));
    if (!session || session.status === "deleted") return { state: "failed", reason: "its session was deleted" };
    return this.#seen(session);
  }

  /** 0 to 1, as far as it is known here. */
  progress(job: JobRecord): number {
    const session = this.sessionOf(job);
    const seen = session && this.#seen(session);
    return seen?.state === "running" ? (seen.progress ?? 0) : 1;
  }

  #seen(session: SessionRecord): SessionObservation {
    const withoutRoomMs = this.#withoutRoom(session);
    switch (session.status) {
      case "done":
        return { state: "done", reason: session.reason };
      case "failed":
        return { state: "failed", reason: session.reason };
      case "created":
        return { state: "running", unstarted: true };
      case "suspended":
        return { state: "running", held: true, reason: session.reason, line: session.line };
      default: {
        const progress = this.#needs.steps.reached(session) / session.identity.steps;
        return { state: "running", progress, line: session.line, withoutRoomMs };
      }
    }
  }

  /** Whether it has come to where it is to be looked at, and what came out there is known. */
  async rests(job: JobRecord): Promise<"now" | "soon" | undefined> {
    const session = this.sessionOf(job);
    const restAfter = session?.policy.restAfter;
    if (!session || restAfter === undefined) return undefined;
    if (session.line < checkpointBefore({ ...session.identity, ...session.policy }, restAfter)) return undefined;
    const { id } = session;
    const { metrics } = this.#needs;
    const isKnown =
      metrics.latest(id, "validation_loss", restAfter, restAfter) !== undefined ||
      (await metrics.all(id, ["validation_loss"], restAfter)).some(({ step }) => step === restAfter);
    const nowMs = this.#context.world.clock.monotonicMs();
    const sinceMs = this.#awaitedSinceMs.get(id) ?? nowMs;
    // What was lost with a machine comes again when the step is repeated.
    if (isKnown || nowMs - sinceMs > awaitedMsMax) {
      this.#awaitedSinceMs.delete(id);
      return "now";
    }
    this.#awaitedSinceMs.set(id, sinceMs);
    return "soon";
  }

  /** Up to where it trains before it is looked at again; undefined: to its end. */
  async restAfter(job: JobRecord, step: number | undefined): Promise<void> {
    if (job.session === undefined) return;
    await this.#context.mirror.update(key.session(job.session), (current) => {
      if (!current || !ownOf(job, current) || current.policy.restAfter === step) return undefined;
      const { restAfter: _, ...policy } = current.policy;
      return { ...current, policy: step === undefined ? policy : { ...policy, restAfter: step } };
    });
  }

  #withoutRoom({ id, status }: SessionRecord): number {
    const nowMs = this.#context.world.clock.monotonicMs();
    if (status !== "waiting") {
      this.#waitingSinceMs.delete(id);
      return 0;
    }
    const sinceMs = this.#waitingSinceMs.get(id) ?? nowMs;
    this.#waitingSinceMs.set(id, sinceMs);
    return nowMs - sinceMs;
  }

  /** Milliseconds until its last step at the pace of now; undefined if nobody knows. */
  leftMs(session: SessionRecord): number | undefined {
    const reached = this.#needs.steps.reached(session);
    const perSecond = this.#needs.steps.perSecond(session.id, reached);
    return perSecond > 0 ? ((session.identity.steps - reached) / perSecond) * 1000 : undefined;
  }

  /** True once nobody owns any of its VNodes. */
  async suspend(job: JobRecord): Promise<boolean> {
    const { mirror } = this.#context;
    const session = await this.#readSession(job);
    if (!session || session.status === "deleted") return true;
    if (isLive(session)) {
      await suspendSession({ context: this.#context }, session.id);
      this.#needs.controller.touch(session.id, true);
      return false;
    }
    if (session.status === "suspended") this.#needs.controller.touch(session.id, true);
    return Array.from(vnodeRecordsOf(mirror, session).values()).every(({ members }) => members.length === 0);
  }

  /** One that failed may be started again: whoever asks has dealt with what made it fail. */
  async revive(job: JobRecord): Promise<void> {
    const { mirror } = this.#context;
    if (job.session === undefined) return;
    const { record, written } = await mirror.update(key.session(job.session), (current) =>
      current?.status === "failed" && ownOf(job, current)
        ? { ...current, status: "suspended" as const, reason: "", endedWallMs: 0 }
        : undefined,
    );
    if (written && record) await clearFailures({ context: this.#context }, record);
  }

  /** What came out of a training, for people and for jobs that need it. */
  async results(job: JobRecord): Promise<Record<string, string>> {
    const session = this.sessionOf(job);
    if (!session) return {};
    await this.#needs.metrics.recall([session]);
    const number = (name: string) => this.#needs.metrics.newest(session.id, name)?.value;
    const found: Record<string, string> = { session: session.id, steps: String(session.line), root: session.stepRoot };
    for (const name of ["loss", "validation_loss", "validation_accuracy"]) {
      const value = number(name);
      if (value !== undefined) found[name] = String(value);
    }
    return found;
  }
}

/** Sessions are named by their settings: once a job's own is gone, another job's may have its name. */
function ownOf({ id }: JobRecord, session: SessionRecord | undefined): SessionRecord | undefined {
  return session?.job === id ? session : undefined;
}
