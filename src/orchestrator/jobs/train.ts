// Jobs that train: each runs one session. The session is made when the job is ready, waits as "created" for its turn, and
// is suspended at its recovery line whenever the job gives way, so that it always comes to the same root.

import { fromJson, type JsonObject as ProtoJson, toJson } from "@bufbuild/protobuf";
import { fail, messageOf } from "../../core/errors.ts";
import type { SessionRequirements } from "../../network/settings/session.ts";
import { type SessionSettings, SessionSettingsSchema } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import { demandOf } from "../../scheduler/demand.ts";
import { type JobRecord, localOwner } from "../records/jobs.ts";
import { createSession, type SessionNeeds, type SessionOrigin } from "../sessions/sessions.ts";
import type { JobSessions } from "./job-sessions.ts";
import type { JobKind, JsonObject, Observation, Prepared, Uses } from "./kinds.ts";

export interface TrainNeeds extends SessionNeeds {
  readonly jobSessions: JobSessions;
}

export class TrainKind implements JobKind {
  readonly name = "train";
  readonly #needs: TrainNeeds;

  constructor(needs: TrainNeeds) {
    this.#needs = needs;
  }

  validate(spec: JsonObject): JsonObject {
    const settings = settingsOf(spec);
    if (settings.network === "") fail("invalid_argument", "a job that trains needs `network` in its `train`");
    if (settings.dataset === "") fail("invalid_argument", "a job that trains needs `dataset` in its `train`");
    return settingsToSpec(settings);
  }

  uses(spec: JsonObject): Uses {
    const { network, initialState } = settingsOf(spec);
    return { network, ...(initialState && { source: initialState }) };
  }

  async prepare(job: JobRecord): Promise<Prepared> {
    const settings = withRequirements(settingsOf(job.spec), job);
    const session = await createSession(this.#needs, settings, job.id, ownedByJob(job));
    const plan = await this.#needs.jobSessions.plan(session);
    const { id, requirements, policy, network } = session;
    return { session: id, demand: demandOf(plan), copies: policy.replicas, requirements, network };
  }

  start(job: JobRecord): Promise<void> {
    return this.#needs.jobSessions.start(job);
  }

  async observe(job: JobRecord): Promise<Observation> {
    const { jobSessions } = this.#needs;
    const seen = await jobSessions.observe(job);
    if (seen.state === "done") return { ...seen, result: await jobSessions.results(job) };
    if (seen.state === "failed") return seen;
    const rests = await jobSessions.rests(job);
    return rests ? { ...seen, rests } : seen;
  }

  suspend(job: JobRecord): Promise<boolean> {
    return this.#needs.jobSessions.suspend(job);
  }

  revive(job: JobRecord): Promise<void> {
    return this.#needs.jobSessions.revive(job);
  }
}

export function settingsToSpec(settings: SessionSettings): JsonObject {
  return toJson(SessionSettingsSchema, settings) as JsonObject;
}

/** What nobody with a key asked for belongs to nobody. */
function ownedByJob({ id, owner, restAfter }: JobRecord): SessionOrigin {
  return { job: id, ...(owner === localOwner ? {} : { owner }), ...(restAfter !== undefined && { restAfter }) };
}

/** As the API's message, by its field names in either spelling. */
export function settingsOf(spec: JsonObject): SessionSettings {
  try {
    return fromJson(SessionSettingsSchema, spec as ProtoJson);
  } catch (thrown) {
    return fail("invalid_argument", `the settings of the training cannot be read: ${messageOf(thrown)}`);
  }
}

/** What the job asks of its PNodes, and its time, count before what the settings say. */
function withRequirements(settings: SessionSettings, { requirements, limitMs }: JobRecord): SessionSettings {
  const said = settings.requirements;
  const { gpuMemoryBytes, memoryBytes, provider, ...own }: SessionRequirements = requirements;
  return {
    ...settings,
    maxRuntimeSeconds: limitMs > 0 ? limitMs / 1000 : settings.maxRuntimeSeconds,
    requirements: {
      $typeName: "dcnr.v1.Requirements",
      gpus: own.gpus || said?.gpus || 0,
      gpuMemoryBytes: BigInt(gpuMemoryBytes) || said?.gpuMemoryBytes || 0n,
      memoryBytes: BigInt(memoryBytes) || said?.memoryBytes || 0n,
      cpus: own.cpus || said?.cpus || 0,
      region: own.region || said?.region || "",
      provider: provider || said?.provider || "",
      trust: own.trust || said?.trust || "",
      maxPricePerHour: own.maxPricePerHour || said?.maxPricePerHour || 0,
      maxRuntimeSeconds: said?.maxRuntimeSeconds || 0,
      priority: own.priority || said?.priority || 0,
      replicas: said?.replicas || 0,
    },
  };
}
