// `dcnr job retry`: lets a job that failed, was cancelled or is held go on from where it was.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showJob } from "../../shown/jobs.ts";

export const command: Command = {
  summary: "Let a job that failed, was cancelled or is held go on from where it was.",
  positionals: [{ name: "JOB" }],
  options: connectionOptions,
  examples: ["dcnr job retry job-3f2a9c1b7d04e5f6"],
  run: (context) =>
    withClient(context, async (client) => {
      const { id } = await client.jobs.get(context.arguments[0] ?? "");
      const job = await client.jobs.retry(id);
      if (context.flags.is("json")) context.out.json(job);
      else showJob(context.out, job);
      return undefined;
    }),
};
