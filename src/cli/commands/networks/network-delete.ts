// `dcnr network delete`: removes a network that no session uses.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Delete a network that no session uses.",
  positionals: [{ name: "NETWORK" }],
  options: connectionOptions,
  examples: ["dcnr network delete mlp"],
  run: (context) =>
    withClient(context, async (client) => {
      const id = context.arguments[0] ?? "";
      await client.networks.delete(id);
      if (context.flags.is("json")) context.out.json({ deleted: id });
      else context.out.line(`deleted ${id}`);
      return undefined;
    }),
};
