// Asks a served model about each row: generated text, a label out of some, a score of how likely the text is, its
// vector, or the network's outputs. Rows are asked in numbered pieces, at whichever replica is free, with seeds made of the row alone; what was answered
// is recorded by piece, so that a kill or a repetition changes nothing.

import { createHash } from "node:crypto";
import { fail } from "../../core/errors.ts";
import { exp, log } from "../../core/numbers/math.ts";
import { float32, type Tensor } from "../../core/tensor.ts";
import { loadTokenizer } from "../../data/bpe/json.ts";
import type { Shard } from "../../data/manifest.ts";
import { putShard, type StoredBlob } from "../kit.ts";
import { type Models, needRows, type Operator, type ServedFacts, type Settings, type StepWork } from "../operator.ts";
import { type Output, RecordWriter, type Row, recordOfRow, recordsOf, rowOf, textOf } from "../records.ts";
import { choice, fieldsOf, number, seedMax, text, texts, whole } from "../settings.ts";
import { eachShard, placesOf } from "./each-shard.ts";

/** Rows that are asked as one task: what a kill costs. */
const pieceRows = 8;
/** Pieces under way for each replica: one is answered while the next is on its way. */
const piecesAtOnce = 2;

const gifts = ["text", "label", "score", "embedding", "outputs"] as const;
type Gift = (typeof gifts)[number];

export const map: Operator = {
  name: "map",
  version: 1,
  reads: "one",
  read(given, where) {
    const known = ["model", "give", "into", "prompt", "field", "labels", "max-tokens", "temperature", "seed", "stop"];
    const fields = fieldsOf(given, known, where);
    const give = choice(fields, "give", where, gifts, "text");
    const refuse = (name: string, forWhat: string) => {
      if (fields[name] !== undefined && !forWhat.split(" ").includes(give))
        fail("invalid_argument", `${where}: \`${name}\` is for ${forWhat.split(" ").join(" and ")}, not for ${give}`);
    };
    for (const name of ["prompt", "max-tokens", "temperature", "seed", "stop"]) refuse(name, "text label");
    refuse("labels", "label");
    const labels = fields["labels"] === undefined ? undefined : texts(fields["labels"], "labels", where);
    return {
      model: text(fields, "model", where),
      give,
      into: text(fields, "into", where, give),
      field: text(fields, "field", where, give === "outputs" || (give === "label" && !labels) ? "inputs" : "text"),
      ...((give === "text" || labels) && {
        prompt: text(fields, "prompt", where, "{text}"),
        maxTokens: whole(fields, "max-tokens", where, 1, 8_192, give === "label" ? 16 : 128),
        temperature: number(fields, "temperature", where, 0, 2, 0),
        seed: whole(fields, "seed", where, 0, seedMax, 0),
        stop: fields["stop"] === undefined ? [] : texts(fields["stop"], "stop", where),
      }),
      ...(labels && { labels }),
    };
  },
  gives: (formats, _settings, _facts, where) => needRows(formats, where),
  async look(settings, outside, where) {
    const served = await outside.models.look(settings["model"] as string);
    const asksTokens = settings["prompt"] !== undefined || ["score", "embedding"].includes(settings["give"] as Gift);
    if (asksTokens && served.context === 0)
      fail(
        "failed_precondition",
        `${where}: the model ${settings["model"]} takes numbers, not text: it can give outputs and labels`,
      );
    if (!asksTokens && served.context > 0)
      fail(
        "failed_precondition",
        `${where}: the model ${settings["model"]} takes text: it can give text, labels out of a list, scores and embeddings`,
      );
    const { replicas: _changes, ...known } = served;
    return known;
  },
  async run(work): Promise<Output> {
    const { inputs, kit } = work;
    const input = inputs[0] as Output;
    const places = placesOf(input);
    const pieces = places.flatMap(({ shard }, place) =>
      Array.from({ length: Math.ceil(shard.count / pieceRows) }, (_, i) => ({ place, start: i * pieceRows })),
    );
    const ask = await asker(work);
    // The number of replicas is no part of what is asked: a model may get more of them in between.
    const { replicas } = await work.outside.models.look(work.settings["model"] as string);
    const answered = await kit.each(
      "ask",
      pieces.length,
      async (task) => {
        const { place, start } = pieces[task] as (typeof pieces)[number];
        const { shard } = places[place] as (typeof places)[number];
        const rows = [...recordsOf(await kit.blobs.get(shard.hash))].slice(start, start + pieceRows);
        const answers = await Promise.all(rows.map((record) => ask(rowOf(record), record)));
        return kit.spill.put(new TextEncoder().encode(JSON.stringify(answers)));
      },
      {
        atOnce: Math.max(1, replicas) * piecesAtOnce,
        bytesOf: (task) => {
          const { shard } = places[pieces[task]?.place ?? 0] as (typeof places)[number];
          return (shard.bytes / shard.count) * pieceRows;
        },
      },
    );
    const into = work.settings["into"] as string;
    const firstPiece = new Map<Shard, number>();
    for (const [task, { place, start }] of pieces.entries())
      if (start === 0) firstPiece.set((places[place] as (typeof places)[number]).shard, task);
    return eachShard(
      input,
      kit,
      async (shard) => {
        const writer = new RecordWriter();
        let task = firstPiece.get(shard) ?? 0;
        let answers: unknown[] = [];
        for (const record of recordsOf(await kit.blobs.get(shard.hash))) {
          if (answers.length === 0)
            answers = JSON.parse(new TextDecoder().decode(await kit.spill.get((answered[task++] as StoredBlob).hash)));
          writer.add(recordOfRow({ ...rowOf(record), [into]: answers.shift() }));
        }
        const { content, count } = writer.take();
        return putShard(kit.blobs, content, count);
      },
      "join",
    );
  },
};

type Ask = (row: Row, record: Uint8Array) => Promise<unknown>;

async function asker({ settings, facts, outside, where }: StepWork): Promise<Ask> {
  const { models } = outside;
  const model = settings["model"] as string;
  const field = settings["field"] as string;
  const served = facts as unknown as ServedFacts;
  switch (settings["give"] as Gift) {
    case "text":
      return (row, record) => models.generate(model, questionOf(settings, row, record, where));
    case "label": {
      const labels = settings["labels"] as readonly string[] | undefined;
      if (labels)
        return async (row, record) =>
          labelIn(await models.generate(model, questionOf(settings, row, record, where)), labels);
      return async (row) => {
        const values = await outputsOf(models, model, row[field], `${where}: field "${field}"`);
        return values.indexOf(Math.max(...values));
      };
    }
    case "outputs":
      return (row) => outputsOf(models, model, row[field], `${where}: field "${field}"`);
    case "embedding":
      return (row) => models.embed(model, textOf(row, field, where));
    case "score": {
      const tokenizer = loadTokenizer(await models.tokenizer(model));
      return (row) =>
        scoreOf(models, model, tokenizer.encode(textOf(row, field, where), { parseSpecial: false }), served.context);
    }
  }
}

/** The prompt with the row's fields in it, and a seed that only the row and the settings decide. */
export function questionOf(settings: Settings, row: Row, record: Uint8Array, where: string) {
  const prompt = (settings["prompt"] as string).replace(/\{([A-Za-z_][A-Za-z0-9_-]*)\}/g, (_whole, name: string) => {
    const value = row[name];
    if (value === undefined)
      fail("invalid_argument", `${where}: the prompt names {${name}}, and a row has no such field`);
    return typeof value === "string" ? value : JSON.stringify(value);
  });
  const digest = createHash("sha256").update(String(settings["seed"])).update(record).digest();
  return {
    prompt,
    maxTokens: settings["maxTokens"] as number,
    temperature: settings["temperature"] as number,
    seed: digest.readUIntBE(0, 6),
    stop: settings["stop"] as readonly string[],
  };
}

/** The label that stands first in the answer; null where none does. */
export function labelIn(answer: string, labels: readonly string[]): string | null {
  const said = answer.toLowerCase();
  const found = labels
    .map((label) => ({ label, at: said.indexOf(label.toLowerCase()) }))
    .filter(({ at }) => at >= 0)
    .sort((a, b) => a.at - b.at || b.label.length - a.label.length);
  return found[0]?.label ?? null;
}

async function outputsOf(models: Models, model: string, inputs: unknown, where: string): Promise<number[]> {
  const shape: number[] = [];
  for (let inner = inputs; Array.isArray(inner); inner = inner[0]) shape.push(inner.length);
  const values = [inputs].flat(8) as number[];
  if (shape.length === 0 || values.some((value) => typeof value !== "number"))
    fail("invalid_argument", `${where} must be a list of numbers for the model`);
  const [output] = await models.forward(model, float32([1, ...shape], values));
  return Array.from(output?.data ?? []);
}

/** Mean logarithm of the probability of each token after those before it; of one window, from the text's beginning. */
async function scoreOf(
  models: Models,
  model: string,
  tokens: ArrayLike<number>,
  context: number,
): Promise<number | null> {
  const used = Math.min(tokens.length, context);
  if (used < 2) return null;
  // What stands behind the text changes nothing before it.
  const padded = Int32Array.from({ length: context }, (_, i) => (i < used ? (tokens[i] as number) : 0));
  const inputs: Tensor = { dtype: "int32", shape: [1, context], data: padded };
  const [output] = await models.forward(model, inputs);
  if (!output) fail("data_loss", `the model ${model} answered without outputs`);
  const classes = output.data.length / context;
  let sum = 0;
  for (let i = 0; i + 1 < used; i++) {
    const logits = output.data.subarray(i * classes, (i + 1) * classes);
    sum += (logits[tokens[i + 1] as number] as number) - logSumExp(logits);
  }
  return sum / (used - 1);
}

function logSumExp(values: Float32Array): number {
  let most = Number.NEGATIVE_INFINITY;
  for (const value of values) if (value > most) most = value;
  let sum = 0;
  for (const value of values) sum += exp(value - most);
  return most + log(sum);
}
