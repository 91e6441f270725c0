// `dcnr session list`: all training sessions.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showSessions } from "../../shown/sessions.ts";

export const command: Command = {
  summary: "List training sessions.",
  options: connectionOptions,
  examples: ["dcnr session list", "dcnr session list --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const sessions = await client.sessions.list();
      if (context.flags.is("json")) context.out.json(sessions);
      else if (sessions.length === 0)
        context.out.advice("No sessions yet. Start one with dcnr train NETWORK --dataset NAME");
      else showSessions(context.out, sessions);
      return undefined;
    }),
};
