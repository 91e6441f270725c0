// `dcnr job show`: one job whole, and why it waits.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showJob } from "../../shown/jobs.ts";

export const command: Command = {
  summary: "Show a job: its life, and while it waits why, its place in line and its probable start.",
  positionals: [{ name: "JOB" }],
  options: connectionOptions,
  examples: ["dcnr job show job-3f2a9c1b7d04e5f6", "dcnr job show nightly --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const job = await client.jobs.get(context.arguments[0] ?? "");
      if (context.flags.is("json")) context.out.json(job);
      else showJob(context.out, job);
      return undefined;
    }),
};
