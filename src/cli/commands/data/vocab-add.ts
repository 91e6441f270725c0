// `dcnr vocab add`: a tokenizer.json of one's own, under a name.

import { existsSync } from "node:fs";
import { fail } from "../../../core/errors.ts";
import type { Command } from "../../command.ts";
import { readVocabulary } from "../../content/datasets.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Keep a Hugging Face tokenizer.json in the network under a name.",
  positionals: [{ name: "NAME" }, { name: "FILE" }],
  options: connectionOptions,
  examples: ["dcnr vocab add gpt2 ./gpt2/tokenizer.json"],
  run: (context) =>
    withClient(context, async (client) => {
      const [name = "", file = ""] = context.arguments;
      if (!existsSync(file)) fail("not_found", `there is no file ${file}: give the path of a tokenizer.json`);
      if (!file.endsWith(".json")) fail("invalid_argument", `${file} is no tokenizer.json: give the path of one`);
      const vocabulary = await client.vocabularies.create(name, await readVocabulary(client, file));
      if (context.flags.is("json")) context.out.json(vocabulary);
      else context.out.line(`vocabulary ${name}: ${vocabulary.tokens.toLocaleString("en")} tokens`);
      return undefined;
    }),
};
