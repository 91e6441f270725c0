// `dcnr vocab list`: the network's vocabularies.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "List vocabularies.",
  options: connectionOptions,
  examples: ["dcnr vocab list", "dcnr vocab list --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const vocabularies = await client.vocabularies.list();
      if (flags.is("json")) return void out.json(vocabularies);
      if (vocabularies.length === 0)
        return void out.advice("No vocabularies yet. Learn one with dcnr vocab train NAME --dataset TEXT");
      out.table(
        [{ title: "NAME" }, { title: "TOKENS", align: "right" }, { title: "SIZE", align: "right" }, { title: "HASH" }],
        vocabularies.map((one) => [one.name, one.tokens.toLocaleString("en"), bytes(one.bytes), one.hash.slice(0, 12)]),
      );
      return undefined;
    }),
};
