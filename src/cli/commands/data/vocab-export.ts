// `dcnr vocab export`: a vocabulary as a tokenizer.json that other programs read.

import { writeFile } from "node:fs/promises";
import { fail, messageOf } from "../../../core/errors.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Write a vocabulary as a Hugging Face tokenizer.json; to standard output without FILE.",
  positionals: [{ name: "NAME" }, { name: "FILE", optional: true }],
  options: connectionOptions,
  examples: ["dcnr vocab export english tokenizer.json", "dcnr vocab export english | jq .model.vocab"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [name = "", file] = context.arguments;
      const { vocabulary, tokenizer } = await client.vocabularies.get(name);
      if (file === undefined) return void out.raw(tokenizer);
      await writeFile(file, tokenizer).catch((thrown) =>
        fail("failed_precondition", `${file} cannot be written: ${messageOf(thrown)}`, thrown),
      );
      if (flags.is("json")) out.json({ ...vocabulary, file });
      else out.line(`wrote ${file}: ${vocabulary.tokens.toLocaleString("en")} tokens, ${bytes(vocabulary.bytes)}`);
      return undefined;
    }),
};
