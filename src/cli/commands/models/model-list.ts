// `dcnr model list`: models that are served or were imported.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showModels } from "../../shown/models.ts";

export const command: Command = {
  summary: "List models that are served or were imported.",
  options: connectionOptions,
  examples: ["dcnr model list", "dcnr model list --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const models = await client.models.list();
      if (context.flags.is("json")) context.out.json(models);
      else if (models.length === 0) context.out.advice("No models. Serve a trained session: dcnr serve SESSION");
      else showModels(context.out, models);
      return undefined;
    }),
};
