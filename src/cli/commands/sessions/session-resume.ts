// `dcnr session resume` and `start`: from the beginning, or from the recovery line after a suspend or after everything was down.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { follow, showSession } from "../../shown/sessions.ts";

export const command: Command = {
  summary: "Start a session, or go on from its recovery line to the same step root as if nothing had happened.",
  positionals: [{ name: "SESSION" }],
  options: {
    ...connectionOptions,
    detach: { type: "boolean", summary: "return at once instead of watching" },
    budget: {
      type: "number",
      value: "CREDITS",
      most: Number.MAX_SAFE_INTEGER,
      summary: "credits that it may spend in all, for one whose budget is spent",
    },
  },
  examples: ["dcnr session resume mlp-3f2a9c1b7d04", "dcnr session resume mlp-3f2a9c1b7d04 --detach --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const id = context.arguments[0] ?? "";
      let session = await client.sessions.start(id, undefined, { budget: flags.optionalNumber("budget") ?? 0 });
      if (!flags.is("detach")) session = (await follow(client, id, out, signal)) ?? session;
      if (flags.is("json")) out.json(session);
      else showSession(out, session);
      return session.status === "failed" ? 1 : 0;
    }),
};
