// `dcnr tune stop`: stops a study with all of its trials.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showStudies } from "../../shown/studies.ts";

export const command: Command = {
  summary: "Stop a study. Its trials keep what they stored, and dcnr tune resume goes on from there.",
  positionals: [{ name: "STUDY" }],
  options: connectionOptions,
  examples: ["dcnr tune stop mlp-rates"],
  run: (context) =>
    withClient(context, async (client) => {
      const { id } = await client.studies.get(context.arguments[0] ?? "");
      await client.jobs.cancel(id);
      const study = await client.studies.get(id);
      if (context.flags.is("json")) context.out.json(study);
      else showStudies(context.out, [study]);
      return undefined;
    }),
};
