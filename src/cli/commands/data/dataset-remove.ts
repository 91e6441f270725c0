// `dcnr dataset remove`: forgets a dataset that no session uses.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Remove a dataset. Refused while a session uses it.",
  positionals: [{ name: "NAME" }],
  options: connectionOptions,
  examples: ["dcnr dataset remove iris"],
  run: (context) =>
    withClient(context, async (client) => {
      const name = context.arguments[0] ?? "";
      await client.datasets.delete(name);
      if (context.flags.is("json")) context.out.json({ removed: name });
      else context.out.line(`removed ${name}`);
      return undefined;
    }),
};
