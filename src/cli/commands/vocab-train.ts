// `dcnr vocab train`: learns a byte-pair vocabulary from a text dataset, on this machine.

import { writeFile } from "node:fs/promises";
import { fail } from "../../core/errors.ts";
import { tokenizerJson } from "../../data/bpe/json.ts";
import { trainBpe } from "../../data/bpe/train.ts";
import { readSplit, textOfDocument } from "../../data/documents.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import { remoteDataset } from "../datasets.ts";
import { Progress } from "../progress.ts";

export const command: Command = {
  summary: "Learn a vocabulary (byte-level BPE) from a text dataset and keep it in the network.",
  positionals: [{ name: "NAME" }],
  options: {
    ...connectionOptions,
    dataset: { type: "string", value: "NAME", summary: "text dataset to learn from" },
    split: { type: "string", value: "SPLIT", summary: "part of it (default: train if there is one, else all)" },
    size: { type: "number", value: "N", summary: "tokens in all", default: 10_000 },
    special: { type: "string", value: "TOKEN", many: true, summary: "special tokens (default: <|endoftext|>)" },
    out: { type: "string", value: "FILE", summary: "also write the tokenizer.json here" },
  },
  examples: [
    "dcnr vocab train english --dataset books --size 10000",
    "dcnr vocab train english --dataset books --out tokenizer.json",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const name = context.arguments[0] ?? "";
      const dataset = flags.text("dataset");
      const { manifest, fetchBlob } = await remoteDataset(client, dataset);
      if (manifest.kind !== "text") fail("failed_precondition", `dataset ${dataset} holds ${manifest.kind}, not text`);
      const split = flags.optionalText("split") ?? ("train" in manifest.splits ? "train" : "all");
      const texts = async function* () {
        for await (const document of readSplit(manifest, split, fetchBlob)) {
          context.signal.throwIfAborted();
          yield textOfDocument(document);
        }
      };
      const specials = flags.texts("special");
      const progress = new Progress(out, name);
      const tokenizer = tokenizerJson(
        await trainBpe(texts(), {
          vocabularySize: flags.number("size"),
          specials: specials.length > 0 ? specials : ["<|endoftext|>"],
          onProgress: (reached) => {
            if (reached.phase === "counting")
              out.status(`${name}: counting words, ${(reached.characters / 1e6).toFixed(1)} million characters`);
            else progress.update(reached.merges, reached.of, "merges");
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
