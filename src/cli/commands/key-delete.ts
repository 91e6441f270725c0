// `dcnr key delete`: an API key that no longer opens anything.

import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";

export const command: Command = {
  summary: "Delete an API key.",
  positionals: [{ name: "KEY" }],
  options: connectionOptions,
  examples: ["dcnr key delete 3f2a9c1b7d04"],
  run: (context) =>
    withClient(context, async (client) => {
      const id = context.arguments[0] ?? "";
      await client.keys.delete(id);
      if (context.flags.is("json")) context.out.json({ deleted: id });
      else context.out.line(`deleted ${id}`);
      return undefined;
    }),
};
