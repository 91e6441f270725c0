// `dcnr session watch`: live progress of a session until it ends.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { follow, showSession } from "../../shown/sessions.ts";

export const command: Command = {
  summary: "Watch a session live until it ends. Ctrl-C stops watching, not the session.",
  positionals: [{ name: "SESSION" }],
  options: connectionOptions,
  examples: ["dcnr session watch mlp-3f2a9c1b7d04"],
  run: (context) =>
    withClient(context, async (client) => {
      const { out } = context;
      const session = await follow(client, context.arguments[0] ?? "", out, context.signal);
      if (!session) return 1;
      if (context.flags.is("json")) out.json(session);
      else showSession(out, session);
      return session.status === "failed" ? 1 : 0;
    }),
};
