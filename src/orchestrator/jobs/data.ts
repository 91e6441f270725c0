// Jobs that run a data pipeline. Pipelines read files, so neither an orchestrator nor a stranger's machine runs them: a job stands in
// its queue like any other, and once it runs, a process of its owner's takes it (`dcnr data work`), beside the files. Orchestrators only
// write down who has it and what came of it. Two that work on the same job make the same datasets, so losing one by mistake is harmless.

import { fail } from "../../core/errors.ts";
import type { JobId } from "../../core/ids.ts";
import { readPipeline } from "../../pipeline/definition.ts";
import type { Context } from "../context.ts";
import type { DataWorkRecord, JobRecord } from "../records/jobs.ts";
import { key, prefix } from "../records/store-keys.ts";
import type { JobKind, JsonObject, Observation, Prepared, Uses } from "./kinds.ts";

/** A worker tells every few seconds; one that says nothing for so long is not waited for. */
export const workerSilentMsMax = 60_000;
const workerNameMax = 64;
/** Of what a worker says came of it. */
const resultTextMax = 4_096;
const resultsMax = 64;

export interface Told {
  readonly progress: number;
  readonly result: Readonly<Record<string, string>>;
  readonly failure: string;
  readonly givesUp: boolean;
}

export class DataKind implements JobKind {
  readonly name = "data";
  readonly #context: Context;
  /** Somebody should look after it now. */
  onOutcome: (job: JobId) => void = () => {};

  constructor(context: Context) {
    this.#context = context;
  }

  validate(spec: JsonObject): JsonObject {
    readPipeline(spec, "the data job");
    return spec;
  }

  uses(): Uses {
    return {};
  }

  /** It holds no room: it is no PNode that computes it. */
  async prepare(): Promise<Prepared> {
    return {};
  }

  async start(): Promise<void> {}

  async observe(job: JobRecord): Promise<Observation> {
    const { outcome, progress = 0 } = (await this.#work(job)) ?? {};
    return outcome ?? { state: "running", progress: Math.min(progress, 0.99) };
  }

  progress({ id, epoch }: JobRecord): number {
    const work = this.#context.mirror.get(key.dataWork(id));
    return work?.epoch === epoch ? work.progress : 0;
  }

  standsFor({ id, epoch }: JobRecord): string | undefined {
    const work = this.#context.mirror.get(key.dataWork(id));
    if (work?.epoch === epoch && !this.#isSilent(work)) return undefined;
    return "it waits for a process of its owner's beside its files: dcnr data work";
  }

  /** Whoever works on it hears so when it tells next. */
  async suspend({ id }: JobRecord): Promise<boolean> {
    await this.#forget(id);
    return true;
  }

  async ended({ id }: JobRecord): Promise<void> {
    await this.#forget(id);
  }

  async revive({ id }: JobRecord): Promise<void> {
    await this.#forget(id);
  }

  /** The oldest job of that owner that nobody works on. Of two workers that ask at once, one gets it. */
  async take(owner: string, worker: string): Promise<{ readonly job: JobRecord; readonly token: string } | undefined> {
    if (worker.length > workerNameMax)
      fail("invalid_argument", `a worker's name has at most ${workerNameMax} letters, not ${worker.length}`);
    const { mirror, world } = this.#context;
    const waiting = mirror
      .under(prefix.jobs)
      .filter((job) => job.kind === this.name && job.status === "running" && job.owner === owner)
      .sort((a, b) => a.submittedWallMs - b.submittedWallMs);
    for (const job of waiting) {
      const token = Buffer.from(world.chance.bytes(12)).toString("base64url");
      const now = { job: job.id, epoch: job.epoch, token, worker, toldWallMs: world.clock.wallMs(), progress: 0 };
      const { written } = await mirror.update(key.dataWork(job.id), (current) =>
        current && current.epoch === job.epoch && !this.#isSilent(current) ? undefined : now,
      );
      if (written) return { job, token };
    }
    return undefined;
  }

  /** False if it is not this worker's any more. */
  async tell(id: JobId, token: string, told: Told): Promise<boolean> {
    const { mirror, world } = this.#context;
    const job = await mirror.read(key.job(id));
    const outcome = outcomeOf(told);
    let isOurs = false;
    await mirror.update(key.dataWork(id), (current) => {
      isOurs = job?.status === "running" && current?.token === token && current.epoch === job.epoch;
      if (!isOurs || !current) return undefined;
      // One that is told to have been silent for ever is the next worker's at once.
      const toldWallMs = told.givesUp ? 0 : world.clock.wallMs();
      return { ...current, toldWallMs, progress: shareOf(told.progress), ...(outcome && { outcome }) };
    });
    if (isOurs && outcome) this.onOutcome(id);
    return isOurs;
  }

  async #work({ id, epoch }: JobRecord): Promise<DataWorkRecord | undefined> {
    const work = await this.#context.mirror.read(key.dataWork(id));
    return work?.epoch === epoch ? work : undefined;
  }

  #isSilent({ toldWallMs, outcome }: DataWorkRecord): boolean {
    return outcome === undefined && this.#context.world.clock.wallMs() - toldWallMs > workerSilentMsMax;
  }

  async #forget(id: JobId): Promise<void> {
    await this.#context.mirror.remove(key.dataWork(id));
  }
}

function shareOf(progress: number): number {
  return Number.isFinite(progress) ? Math.min(1, Math.max(0, progress)) : 0;
}

function outcomeOf({ result, failure }: Told): DataWorkRecord["outcome"] {
  if (failure !== "") return { state: "failed", reason: failure.slice(0, resultTextMax) };
  const entries = Object.entries(result);
  if (entries.length === 0) return undefined;
  if (entries.length > resultsMax || entries.some(([name, text]) => name.length + text.length > resultTextMax))
    fail("invalid_argument", `what came of a job is told in at most ${resultsMax} texts of ${resultTextMax} letters`);
  return { state: "done", result };
}
