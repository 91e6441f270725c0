// Jobs that ask a served model about each document of a dataset; the answers are a dataset of their own. PNodes compute, an orchestrator
// only hands questions out: in numbered pieces, to all replicas, with seeds that a document decides. A piece's answers are a record that
// is created once, so whoever goes on after a crash asks only what is not answered yet, and whoever asks twice changes nothing.

import { DcnrError, fail, messageOf, outlookOf } from "../../core/errors.ts";
import type { JobId } from "../../core/ids.ts";
import { sleep } from "../../core/world.ts";
import { buildText } from "../../data/build.ts";
import { openDatasets } from "../../data/datasets.ts";
import { type Document, readSplit, textOfDocument } from "../../data/documents.ts";
import { lineageOf } from "../../data/lineage.ts";
import { manifestHash, parseManifest, type TextManifest } from "../../data/manifest.ts";
import { ruleOf } from "../../data/order.ts";
import type { Settings } from "../../pipeline/operator.ts";
import { labelIn, map, questionOf } from "../../pipeline/operators/map.ts";
import { recordOfRow } from "../../pipeline/records.ts";
import { createItem, deleteItem, listItems } from "../../store/records/update.ts";
import type { Context } from "../context.ts";
import { type AnswersRecord, type JobRecord, localOwner } from "../records/jobs.ts";
import { key, prefix } from "../records/store-keys.ts";
import { findSpeaker } from "../serving/models.ts";
import type { TextGenerator } from "../serving/text.ts";
import type { JobKind, JsonObject, Observation, Prepared, Uses } from "./kinds.ts";

/** Documents of a piece: what a crash costs. Their answers fit a record of every store. */
const pieceDocuments = 8;
const maxTokensMax = 1_024;
/** Pieces under way for each replica: one is answered while the next is on its way. */
const piecesAtOnce = 2;
/** What will pass is tried again after this. */
const againMs = 2_000;

interface Asked {
  readonly dataset: string;
  readonly split: string;
  /** The dataset of the answers. */
  readonly save: string;
  readonly settings: Settings;
}

/** A job that this orchestrator drives. */
interface Driven {
  readonly epoch: number;
  readonly stop: AbortController;
  answered: number;
  documents: number;
  outcome: Observation | undefined;
  ended: boolean;
}

export class MapKind implements JobKind {
  readonly name = "map";
  readonly #context: Context;
  readonly #driven = new Map<JobId, Driven>();
  /** Who asks the replicas; there once the orchestrator is put together. */
  generator: TextGenerator | undefined;
  /** Somebody should look after it now. */
  onOutcome: (job: JobId) => void = () => {};

  constructor(context: Context) {
    this.#context = context;
  }

  validate(spec: JsonObject): JsonObject {
    const { settings: _read, ...asked } = askedOf(spec);
    return { ...spec, ...asked };
  }

  uses(spec: JsonObject): Uses {
    return { source: String(spec["model"]) };
  }

  /** It holds no room: the model's replicas have theirs. */
  async prepare(job: JobRecord): Promise<Prepared> {
    const asked = askedOf(job.spec);
    await this.#manifest(asked);
    const { model } = await findSpeaker(this.#context, String(asked.settings["model"]));
    // One that comes and goes by load has none while nobody asks.
    if (model.replicas.length === 0 && !model.scaling)
      fail("failed_precondition", `the model ${model.name} is not served: dcnr serve ${model.name}`);
    if (model.context === 0) fail("failed_precondition", `the model ${model.name} takes numbers, not text`);
    return { network: model.network };
  }

  async start(job: JobRecord): Promise<void> {
    this.#drive(job);
  }

  /** Whoever started it may be gone: whoever looks after it goes on. */
  async observe(job: JobRecord): Promise<Observation> {
    const { outcome, answered, documents } = this.#drive(job);
    return outcome ?? { state: "running", progress: documents > 0 ? Math.min(0.99, answered / documents) : 0 };
  }

  async suspend({ id }: JobRecord): Promise<boolean> {
    const driven = this.#driven.get(id);
    driven?.stop.abort();
    if (driven && !driven.ended) return false;
    this.#driven.delete(id);
    return true;
  }

  /** The answers are in the dataset, or nobody wants them any more. Asked again while one is on its way. */
  async ended({ id }: JobRecord): Promise<void> {
    const driven = this.#driven.get(id);
    driven?.stop.abort();
    if (driven && !driven.ended) return;
    this.#driven.delete(id);
    const { mirror, world } = this.#context;
    for await (const { key: found } of listItems<AnswersRecord>(mirror.store, prefix.answersOf(id)))
      await deleteItem<AnswersRecord>(mirror.store, found, world);
  }

  async revive({ id }: JobRecord): Promise<void> {
    this.#driven.delete(id);
  }

  #drive(job: JobRecord): Driven {
    const known = this.#driven.get(job.id);
    // Left without an end: it begins again, from what is answered, unless it is to give way.
    const isLeft = known?.ended && !known.outcome && !job.yielding;
    if (known?.epoch === job.epoch && !isLeft) return known;
    known?.stop.abort();
    const driven: Driven = {
      epoch: job.epoch,
      stop: new AbortController(),
      answered: 0,
      documents: 0,
      outcome: undefined,
      ended: false,
    };
    this.#driven.set(job.id, driven);
    const { tasks } = this.#context;
    const abort = () => driven.stop.abort();
    tasks.signal.addEventListener("abort", abort, { once: true });
    tasks.run(`the questions of job ${job.id}`, async () => {
      try {
        await this.#ask(job, driven);
      } finally {
        driven.ended = true;
        this.onOutcome(job.id);
        tasks.signal.removeEventListener("abort", abort);
      }
    });
    return driven;
  }

  async #ask(job: JobRecord, driven: Driven): Promise<void> {
    const { world } = this.#context;
    while (!driven.stop.signal.aborted && this.#isOurs(job)) {
      try {
        driven.outcome = await this.#attempt(job, driven);
        return;
      } catch (thrown) {
        if (driven.stop.signal.aborted) return;
        if (outlookOf(thrown) === "final") {
          driven.outcome = { state: "failed", reason: messageOf(thrown) };
          return;
        }
        world.log("warn", `job ${job.id} asks again in ${againMs / 1000} s: ${messageOf(thrown)}`);
        await sleep(world.timers, againMs, driven.stop.signal);
      }
    }
  }

  async #attempt(job: JobRecord, driven: Driven): Promise<Observation> {
    const { mirror, world } = this.#context;
    const asked = askedOf(job.spec);
    const manifest = await this.#manifest(asked);
    driven.documents = documentsOf(manifest, asked.split);
    const answered = new Set<number>();
    for await (const { record } of listItems<AnswersRecord>(mirror.store, prefix.answersOf(job.id)))
      answered.add(record.piece);
    driven.answered = answered.size * pieceDocuments;
    const pieces = piecesOf(readSplit(manifest, asked.split, (hash) => this.#context.blobs.datasets.get(hash)));
    const { replicas } = (await findSpeaker(this.#context, String(asked.settings["model"]))).model;
    let failed: { readonly thrown: unknown } | undefined;
    const lane = async () => {
      // Whoever calls `next` of a generator waits for those that called before.
      for (let next = await pieces.next(); !next.done && !failed; next = await pieces.next()) {
        const { piece, documents } = next.value;
        if (answered.has(piece)) continue;
        try {
          if (!this.#isOurs(job) || driven.stop.signal.aborted)
            throw new DcnrError("cancelled", "the job runs no more, or elsewhere");
          const answers = await Promise.all(
            documents.map((one) => this.#answer(asked.settings, one, driven.stop.signal)),
          );
          await createItem<AnswersRecord>(
            mirror.store,
            key.answers(job.id, piece),
            { job: job.id, piece, answers },
            world,
          );
          driven.answered += documents.length;
        } catch (thrown) {
          failed ??= { thrown };
        }
      }
    };
    await Promise.all(Array.from({ length: Math.max(1, replicas.length) * piecesAtOnce }, lane));
    if (failed) throw failed.thrown;
    return this.#save(job, asked, manifest);
  }

  #isOurs({ id, epoch }: JobRecord): boolean {
    const now = this.#context.mirror.get(key.job(id));
    return now?.status === "running" && now.epoch === epoch;
  }

  async #answer(settings: Settings, document: Document, signal: AbortSignal): Promise<string> {
    const generator = this.generator ?? fail("unavailable", "the orchestrator is still starting");
    const row = { text: textOfDocument(document) };
    const { temperature, seed, ...question } = questionOf(settings, row, recordOfRow(row), "the job");
    const sampling = {
      ...{ temperature, seed, topK: 0, topP: 1, repetitionPenalty: 1 },
      ...{ frequencyPenalty: 0, presencePenalty: 0, logitBias: {} },
    };
    let text = "";
    let finished = false;
    const request = { model: String(settings["model"]), ...question, sampling };
    for await (const piece of generator.generate(request, signal)) {
      text += piece.text;
      finished ||= piece.finish !== undefined;
    }
    if (!finished) fail("unavailable", "an answer broke off");
    const labels = settings["labels"] as readonly string[] | undefined;
    return labels ? (labelIn(text, labels) ?? "") : text;
  }

  /** All pieces are answered: from their records, in their order, to a dataset. */
  async #save(job: JobRecord, { dataset, split, save, settings }: Asked, source: TextManifest): Promise<Observation> {
    const { mirror, world, blobs } = this.#context;
    const builder = buildText(false, { blobs: blobs.datasets });
    let piece = 0;
    for await (const { record } of listItems<AnswersRecord>(mirror.store, prefix.answersOf(job.id))) {
      if (record.piece !== piece++) fail("unavailable", `the answers of piece ${piece - 1} are not there yet`);
      for (const answer of record.answers) await builder.add(new TextEncoder().encode(answer.toWellFormed()));
    }
    const made = await builder.finish();
    const datasets = openDatasets({ store: mirror.store, blobs: blobs.datasets, world });
    const from = { name: dataset, hash: manifestHash(source), manifest: source };
    const owner = job.owner === localOwner ? undefined : job.owner;
    const { hash } = await datasets.add(save, made, owner, lineageOf("map", { ...settings, split }, made, from));
    return { state: "done", result: { dataset: save, documents: String(made.documents), hash } };
  }

  async #manifest({ dataset, split }: Asked): Promise<TextManifest> {
    const { mirror, blobs } = this.#context;
    const record = await mirror.read(key.dataset(dataset));
    if (!record) fail("not_found", `there is no dataset ${dataset}: dcnr dataset list shows them`);
    const manifest = parseManifest(new TextDecoder().decode(await blobs.datasets.get(record.hash)));
    if (manifest.kind !== "text")
      fail("failed_precondition", `dataset ${dataset} holds ${manifest.kind}, and a model is asked about texts`);
    ruleOf(manifest, split);
    return manifest;
  }
}

/** The settings of a step `map` of pipelines, and between which datasets. */
function askedOf(spec: JsonObject): Asked {
  const { dataset, split = "all", save, ...given } = spec;
  for (const [name, value] of Object.entries({ dataset, split, save }))
    if (typeof value !== "string" || value === "") fail("invalid_argument", `a map job needs \`${name}\`: a name`);
  if (given["into"] !== undefined || given["field"] !== undefined)
    fail("invalid_argument", "a map job has no fields: it answers documents with documents, in the dataset `save`");
  const settings = map.read(given, "the map job");
  if (settings["prompt"] === undefined)
    fail("invalid_argument", "a map job gives text, or a label out of `labels`: the rest is given by `dcnr data`");
  if ((settings["maxTokens"] as number) > maxTokensMax)
    fail("invalid_argument", `a map job asks for at most ${maxTokensMax} tokens a document`);
  return { dataset: dataset as string, split: split as string, save: save as string, settings };
}

function documentsOf(manifest: TextManifest, split: string): number {
  const rule = ruleOf(manifest, split);
  if (rule.kind === "range") return rule.end - rule.start;
  return rule.kind === "list" ? rule.count : Math.round(manifest.documents * (rule.to - rule.from));
}

async function* piecesOf(
  documents: AsyncIterable<Document>,
): AsyncGenerator<{ readonly piece: number; readonly documents: readonly Document[] }> {
  let piece = 0;
  let pending: Document[] = [];
  for await (const document of documents) {
    // A document is a view of its shard, which need not stay in memory for it.
    pending.push({ index: document.index, bytes: document.bytes.slice() });
    if (pending.length < pieceDocuments) continue;
    yield { piece: piece++, documents: pending };
    pending = [];
  }
  if (pending.length > 0) yield { piece, documents: pending };
}
