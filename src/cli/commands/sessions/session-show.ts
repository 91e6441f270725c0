// `dcnr session show`: one session with its settings, progress and step root.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showSession } from "../../shown/sessions.ts";

export const command: Command = {
  summary: "Show one session: settings, progress, recovery line, step root.",
  positionals: [{ name: "SESSION" }],
  options: { ...connectionOptions, roots: { type: "boolean", summary: "list the root of every step" } },
  examples: ["dcnr session show mlp-3f2a9c1b7d04", "dcnr session show mlp-3f2a9c1b7d04 --roots --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const id = context.arguments[0] ?? "";
      const session = await client.sessions.get(id);
      const roots = flags.is("roots") ? await client.sessions.stepRoots(id) : [];
      if (flags.is("json")) return void out.json(flags.is("roots") ? { ...session, roots } : session);
      showSession(out, session);
      for (const { step, root } of roots) out.line(`${String(step).padStart(11)} ${root}`);
      return undefined;
    }),
};
