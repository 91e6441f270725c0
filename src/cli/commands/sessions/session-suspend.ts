// `dcnr session suspend`: pauses a session; its recovery line stays, and resume goes on from it.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showSession } from "../../shown/sessions.ts";

export const command: Command = {
  summary: "Pause a session. Nothing is lost: `dcnr session resume` goes on to the same bits.",
  positionals: [{ name: "SESSION" }],
  options: connectionOptions,
  examples: ["dcnr session suspend mlp-3f2a9c1b7d04"],
  run: (context) =>
    withClient(context, async (client) => {
      const session = await client.sessions.suspend(context.arguments[0] ?? "");
      if (context.flags.is("json")) context.out.json(session);
      else showSession(context.out, session);
      return undefined;
    }),
};
