// `dcnr session create`: a session that waits to be started.

import type { Command } from "../../command.ts";
import { ensureDataset } from "../../content/builtin.ts";
import { settingsFrom, trainingOptions } from "../../flags/training.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showSession } from "../../shown/sessions.ts";

export const command: Command = {
  summary: "Create a session without starting it: settings are checked, its id is known.",
  positionals: [{ name: "NETWORK" }],
  options: { ...connectionOptions, ...trainingOptions },
  examples: ["dcnr session create mlp --dataset mnist --steps 300", "dcnr session start mlp-3f2a9c1b7d04"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      await ensureDataset(client, flags.text("dataset"), out);
      const session = await client.sessions.create(settingsFrom(context, context.arguments[0] ?? ""), { start: false });
      if (flags.is("json")) return void out.json(session);
      showSession(out, session);
      out.advice(`Start it: dcnr session start ${session.id}`);
      return undefined;
    }),
};
