// `dcnr dataset tokenize`: a token stream from a text dataset, with its splits.

import { fail } from "../../../core/errors.ts";
import { lineageOf } from "../../../data/lineage.ts";
import { manifestHash } from "../../../data/manifest.ts";
import { tokenise } from "../../../data/tokenise.ts";
import type { Command } from "../../command.ts";
import { remoteSink } from "../../content/builtin.ts";
import { checkNewName, readVocabulary, register, remoteDataset } from "../../content/datasets.ts";
import { stopIfInterrupted } from "../../interruption.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { Progress } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Turn a text dataset into tokens; the result is a dataset of its own.",
  positionals: [{ name: "NAME" }, { name: "NEW-NAME" }],
  options: {
    ...connectionOptions,
    vocab: { type: "string", value: "NAME", summary: "vocabulary of the network, or the path of a tokenizer.json" },
    "end-token": { type: "string", value: "TOKEN", summary: "ends each document (default: the vocabulary's own)" },
  },
  examples: [
    "dcnr dataset tokenize books books-tokens --vocab english",
    "dcnr dataset tokenize pages pages-tokens --vocab tokenizer.json",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [name = "", newName = ""] = context.arguments;
      await checkNewName(client, newName, out);
      const { manifest, fetchBlob } = await remoteDataset(client, name);
      if (manifest.kind !== "text") fail("failed_precondition", `dataset ${name} holds ${manifest.kind}, not text`);
      const progress = new Progress(out, newName, "documents");
      const tokens = await tokenise({
        manifest,
        fetchBlob,
        blobs: remoteSink(client),
        tokenizer: await readVocabulary(client, flags.text("vocab")),
        endToken: flags.optionalText("end-token"),
        onProgress: ({ documents, of, tokens }) => {
          stopIfInterrupted(context.signal);
          progress.update(documents, of, `${tokens.toLocaleString("en")} tokens`);
        },
      });
      const endToken = flags.optionalText("end-token");
      const settings = { vocabulary: flags.text("vocab"), ...(endToken && { endToken }) };
      const lineage = lineageOf("tokenise", settings, tokens, { name, hash: manifestHash(manifest), manifest });
      await register(client, newName, tokens, out, flags.is("json"), lineage);
      return undefined;
    }),
};
