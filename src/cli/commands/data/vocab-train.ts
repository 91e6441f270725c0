// `dcnr vocab train`: learns a byte-pair vocabulary from a text dataset or a text file, on this machine.

import { writeFile } from "node:fs/promises";
import type { Client } from "../../../client/client.ts";
import { fail } from "../../../core/errors.ts";
import { parseId } from "../../../core/ids.ts";
import { tokenizerJson } from "../../../data/bpe/json.ts";
import { trainBpe } from "../../../data/bpe/train.ts";
import { type Document, readSplit, textOfDocument } from "../../../data/documents.ts";
import { readPieces } from "../../../data/formats/text.ts";
import { openSource, type Source } from "../../../data/imports/source.ts";
import { datasetBytes } from "../../../data/manifest.ts";
import { ruleOf } from "../../../data/order.ts";
import type { Command, CommandContext } from "../../command.ts";
import { remoteDataset, sourceAccess } from "../../content/datasets.ts";
import { stopIfInterrupted } from "../../interruption.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { ByteProgress, Progress } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Learn a vocabulary (byte-level BPE) from a text dataset, or a text file, and keep it in the network.",
  details: "SOURCE is a path, file:, https:, s3://BUCKET/KEY or - for standard input, with plain text.",
  positionals: [{ name: "NAME" }, { name: "SOURCE", optional: true }],
  options: {
    ...connectionOptions,
    dataset: { type: "string", value: "NAME", summary: "text dataset to learn from" },
    split: { type: "string", value: "SPLIT", summary: "part of it (default: train if there is one, else all)" },
    size: { type: "number", least: 1, value: "N", summary: "tokens in all", default: 10_000 },
    special: { type: "string", value: "TOKEN", many: true, summary: "special tokens (default: <|endoftext|>)" },
    out: { type: "string", value: "FILE", summary: "also write the tokenizer.json here" },
  },
  examples: [
    "dcnr vocab train english --dataset books --size 10000",
    "dcnr vocab train english --dataset books --out tokenizer.json",
    "dcnr vocab train english books.txt --size 8000",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const name = parseId<string>(context.arguments[0] ?? "", "the vocabulary's name");
      const { texts, bytesTotal } = await textsOf(context, client);
      const specials = flags.texts("special");
      const counting = new ByteProgress(out, `${name}: counting words`);
      const merging = new Progress(out, `${name}: learning`, "merges");
      const tokenizer = tokenizerJson(
        await trainBpe(texts, {
          vocabularySize: flags.number("size"),
          specials: specials.length > 0 ? specials : ["<|endoftext|>"],
          onProgress: (reached) => {
            stopIfInterrupted(context.signal);
            if (reached.phase === "merging") merging.update(reached.merges, reached.of, "");
            else counting.update(reached.characters, bytesTotal, `${reached.words.toLocaleString("en")} different`);
          },
        }),
      );
      const file = flags.optionalText("out");
      if (file) await writeFile(file, tokenizer);
      const vocabulary = await client.vocabularies.create(name, tokenizer);
      if (flags.is("json")) out.json(vocabulary);
      else
        out.line(
          `vocabulary ${name}: ${vocabulary.tokens.toLocaleString("en")} tokens${file ? `, also in ${file}` : ""}`,
        );
      return undefined;
    }),
};

interface Texts {
  readonly texts: AsyncIterable<string>;
  /** Undefined if it is not known before the end. */
  readonly bytesTotal: number | undefined;
}

async function textsOf(context: CommandContext, client: Client): Promise<Texts> {
  const { flags } = context;
  const source = context.arguments[1];
  const dataset = flags.optionalText("dataset");
  if ((source === undefined) === (dataset === undefined))
    fail("invalid_argument", "give either a SOURCE or --dataset NAME to learn from: see dcnr vocab train --help");
  if (source !== undefined) {
    const opened = await openSource(source, sourceAccess());
    return { texts: textsOfSource(opened), bytesTotal: opened.bytes };
  }
  const name = dataset as string;
  const { manifest, fetchBlob } = await remoteDataset(client, name);
  if (manifest.kind !== "text") fail("failed_precondition", `dataset ${name} holds ${manifest.kind}, not text`);
  const split = flags.optionalText("split") ?? ("train" in manifest.splits ? "train" : "all");
  const whole = ruleOf(manifest, split);
  const share = whole.kind === "range" ? (whole.end - whole.start) / Math.max(1, manifest.documents) : 1;
  return {
    texts: textsOfDocuments(readSplit(manifest, split, fetchBlob)),
    bytesTotal: Math.ceil(datasetBytes(manifest) * share),
  };
}

async function* textsOfSource(source: Source): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  for await (const { bytes } of readPieces(source.read(0), { offset: 0, line: 0 }, source.name))
    yield decoder.decode(bytes);
}

async function* textsOfDocuments(documents: AsyncIterable<Document>): AsyncGenerator<string> {
  for await (const document of documents) yield textOfDocument(document);
}
