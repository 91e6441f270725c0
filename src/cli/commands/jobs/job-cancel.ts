// `dcnr job cancel`: ends jobs; what they stored stays.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showJobs } from "../../shown/jobs.ts";

export const command: Command = {
  summary: "End jobs. What a training has stored stays, and dcnr job retry goes on from there.",
  positionals: [{ name: "JOB", many: true }],
  options: connectionOptions,
  examples: ["dcnr job cancel job-3f2a9c1b7d04e5f6"],
  run: (context) =>
    withClient(context, async (client) => {
      const jobs = [];
      for (const id of context.arguments) jobs.push(await client.jobs.cancel((await client.jobs.get(id)).id));
      if (context.flags.is("json")) context.out.json(jobs);
      else showJobs(context.out, jobs);
      return undefined;
    }),
};
