// `dcnr tune resume`: lets a stopped study go on.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showStudies } from "../../shown/studies.ts";

export const command: Command = {
  summary: "Let a study that was stopped, or failed, go on from where it was.",
  positionals: [{ name: "STUDY" }],
  options: connectionOptions,
  examples: ["dcnr tune resume mlp-rates"],
  run: (context) =>
    withClient(context, async (client) => {
      const { id } = await client.studies.get(context.arguments[0] ?? "");
      await client.jobs.retry(id);
      const study = await client.studies.get(id);
      if (context.flags.is("json")) context.out.json(study);
      else showStudies(context.out, [study]);
      return undefined;
    }),
};
