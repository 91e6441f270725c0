// `dcnr vocab remove`: forgets a vocabulary's name. Datasets made with it keep their copy.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Remove a vocabulary. Datasets that were made with it stay as they are.",
  positionals: [{ name: "NAME" }],
  options: connectionOptions,
  examples: ["dcnr vocab remove english"],
  run: (context) =>
    withClient(context, async (client) => {
      const name = context.arguments[0] ?? "";
      await client.vocabularies.delete(name);
      if (context.flags.is("json")) context.out.json({ removed: name });
      else context.out.line(`removed ${name}`);
      return undefined;
    }),
};
