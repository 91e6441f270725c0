// Jobs that evaluate: loss and accuracy of a session's newest state, or of a model, on a split of a dataset, computed by
// PNodes. What runs is a session of one step that starts from the weights and validates before it learns; it is deleted
// when its numbers are known.

import { create } from "@bufbuild/protobuf";
import { fail, hasCode } from "../../core/errors.ts";
import { type NetworkId, parseId } from "../../core/ids.ts";
import { written } from "../../core/words/written.ts";
import { samplesOfSplit } from "../../data/datasets.ts";
import { parseManifest } from "../../data/manifest.ts";
import type { SessionIdentity } from "../../network/settings/session.ts";
import { settingFields } from "../../network/settings/setting-fields.ts";
import { type SessionSettings, SessionSettingsSchema } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import type { JobRecord } from "../records/jobs.ts";
import { key } from "../records/store-keys.ts";
import { findState } from "../serving/models.ts";
import { deleteSession } from "../sessions/sessions.ts";
import type { Metrics } from "../views/metrics.ts";
import type { JobKind, JsonObject, Observation, Prepared, Uses } from "./kinds.ts";
import { settingsToSpec, TrainKind, type TrainNeeds } from "./train.ts";

export interface EvaluateNeeds extends TrainNeeds {
  readonly metrics: Metrics;
}

/** Too small to change a float32 weight that matters. */
const rate = settingFields.rate.least;
const samplesUsual = 1_024;
const batchUsual = 8;
/** A PNode that is slow to report may do so a moment after the end. */
const reportMs = 10_000;

interface EvaluateSpec {
  readonly source: string;
  readonly dataset: string;
  readonly split: string;
  readonly samples: number;
  readonly batch: number;
  readonly numerics: string;
}

export class EvaluateKind implements JobKind {
  readonly name = "evaluate";
  readonly #needs: EvaluateNeeds;
  readonly #train: TrainKind;
  readonly #endedMs = new Map<string, number>();

  constructor(needs: EvaluateNeeds) {
    this.#needs = needs;
    this.#train = new TrainKind(needs);
  }

  validate(spec: JsonObject): JsonObject {
    const known = ["source", "dataset", "split", "samples", "batch", "numerics"];
    const odd = Object.keys(spec).find((name) => !known.includes(name));
    if (odd !== undefined)
      fail("invalid_argument", `an evaluation has no setting "${odd}": there are ${known.join(", ")}`);
    const text = (name: string, usual: string) => {
      const given = spec[name] ?? usual;
      return typeof given === "string" ? given : fail("invalid_argument", `${name} of the evaluation must be a text`);
    };
    const whole = (name: string, usual: number) => {
      const asked = spec[name] ?? usual;
      const given = typeof asked === "object" ? Number.NaN : Number(asked);
      if (Number.isSafeInteger(given) && given >= 1 && given <= 65_536) return given;
      return fail(
        "invalid_argument",
        `${name} of the evaluation is ${written(spec[name])}, expected a whole number from 1 to 65536`,
      );
    };
    const source = text("source", "");
    if (source === "") fail("invalid_argument", "an evaluation needs `source`: the session or model to evaluate");
    return {
      source,
      dataset: text("dataset", ""),
      split: text("split", "validation"),
      samples: whole("samples", samplesUsual),
      batch: whole("batch", batchUsual),
      numerics: text("numerics", ""),
    };
  }

  uses(spec: JsonObject): Uses {
    return { source: String(spec["source"]) };
  }

  async prepare(job: JobRecord): Promise<Prepared> {
    const spec = job.spec as unknown as EvaluateSpec;
    const settings = await this.#settings({ ...spec, source: this.#source(job) });
    return this.#train.prepare({ ...job, spec: settingsToSpec(settings) });
  }

  /** What a job trained may be named by that job. */
  #source({ needs, spec }: JobRecord): string {
    const { mirror } = this.#needs.context;
    const { source } = spec as unknown as EvaluateSpec;
    const needed = needs.map((id) => mirror.get(key.job(id))).find((job) => job?.name === source);
    return (needed ?? mirror.get(key.job(source)))?.session ?? source;
  }

  async #settings({ source, split, ...spec }: EvaluateSpec): Promise<SessionSettings> {
    const { context, compiled } = this.#needs;
    const state = await findState(this.#needs, source);
    const trained = context.mirror.get(key.session(source));
    const dataset =
      spec.dataset ||
      trained?.dataset ||
      fail("invalid_argument", `${source} is a model: say which \`dataset\` to evaluate it on`);
    const network = parseId<NetworkId>(state.network, "the network");
    const definition = context.mirror.get(key.network(network))?.definition;
    if (definition !== state.definition)
      fail(
        "failed_precondition",
        `the network ${network} was deleted or changed since ${source} was made: create it again to evaluate`,
      );
    const record = await context.mirror.read(key.dataset(parseId(dataset, "the dataset")));
    if (!record) fail("not_found", `there is no dataset ${dataset}: add it with \`dcnr dataset add\``);
    const manifest = parseManifest(new TextDecoder().decode(await context.blobs.datasets.get(record.hash)));
    const plan = await compiled.plan(state.definition);
    const samples = Math.min(spec.samples, samplesOfSplit(manifest, split, plan.inputs?.shape[0]));
    const batch = Math.max(1, Math.min(spec.batch, samples));
    return create(SessionSettingsSchema, {
      network,
      dataset,
      split,
      validationSplit: split,
      initialState: source,
      steps: 1n,
      batch,
      microbatches: 1,
      validateEvery: 1,
      validationMicrobatches: Math.min(
        settingFields.validationMicrobatches.most,
        Math.max(1, Math.floor(samples / batch)),
      ),
      numerics: spec.numerics || evaluatedIn(trained?.identity.numerics),
      learningRate: { schedule: "constant", base: rate },
    });
  }

  start(job: JobRecord): Promise<void> {
    return this.#train.start(job);
  }

  async observe(job: JobRecord): Promise<Observation> {
    const seen = await this.#needs.jobSessions.observe(job);
    if (seen.state !== "done") return seen;
    const session = this.#needs.jobSessions.sessionOf(job);
    if (!session) return { state: "failed", reason: "its session was deleted" };
    const points = await this.#needs.metrics.all(session.id, ["validation_loss", "validation_accuracy"], 0);
    const of = (name: string) => points.find((point) => point.name === name)?.value;
    const loss = of("validation_loss");
    if (loss === undefined) return this.#unreported(job);
    const accuracy = of("validation_accuracy");
    const { validationMicrobatches, batch, validationSplit } = session.identity;
    return {
      state: "done",
      result: {
        loss: String(loss),
        ...(accuracy === undefined ? {} : { accuracy: String(accuracy) }),
        samples: String(validationMicrobatches * batch),
        dataset: session.dataset,
        split: validationSplit,
      },
    };
  }

  #unreported({ id }: JobRecord): Observation {
    const nowMs = this.#needs.context.world.clock.monotonicMs();
    const sinceMs = this.#endedMs.get(id) ?? nowMs;
    this.#endedMs.set(id, sinceMs);
    if (nowMs - sinceMs < reportMs) return { state: "running", progress: 1 };
    this.#endedMs.delete(id);
    return { state: "failed", reason: "no PNode reported the result of the evaluation: try again" };
  }

  /** One that failed is kept for people to look at. */
  async ended({ id, status, session }: JobRecord): Promise<void> {
    if (status !== "done" || session === undefined) return;
    try {
      await deleteSession(this.#needs, session, id);
    } catch (thrown) {
      if (!hasCode(thrown, "not_found")) throw thrown;
    }
  }

  suspend(job: JobRecord): Promise<boolean> {
    return this.#train.suspend(job);
  }

  revive(job: JobRecord): Promise<void> {
    return this.#train.revive(job);
  }
}

/** As it was trained, if one machine can: lanes of several classes learn together, nothing else does. */
function evaluatedIn(trained: SessionIdentity["numerics"] | undefined): string {
  return trained === undefined || trained === "mixed" ? "" : trained;
}
