// `dcnr session delete`: removes a session with its checkpoints.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Delete a session with its checkpoints and metrics. This cannot be undone.",
  positionals: [{ name: "SESSION" }],
  options: connectionOptions,
  examples: ["dcnr session delete mlp-3f2a9c1b7d04"],
  run: (context) =>
    withClient(context, async (client) => {
      const id = context.arguments[0] ?? "";
      await client.sessions.delete(id);
      if (context.flags.is("json")) context.out.json({ deleted: id });
      else context.out.line(`deleted ${id}`);
      return undefined;
    }),
};
