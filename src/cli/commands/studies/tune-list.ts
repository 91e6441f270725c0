// `dcnr tune list`: all studies.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showStudies } from "../../shown/studies.ts";

export const command: Command = {
  summary: "List studies, the newest first.",
  options: connectionOptions,
  examples: ["dcnr tune list"],
  run: (context) =>
    withClient(context, async (client) => {
      const studies = await client.studies.list();
      if (context.flags.is("json")) context.out.json(studies);
      else showStudies(context.out, studies);
      return undefined;
    }),
};
