// `dcnr job list`: jobs, the newest first, and why each waits.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showJobs } from "../../shown/jobs.ts";

export const command: Command = {
  summary: "List jobs, the newest first, and why each waits.",
  options: {
    ...connectionOptions,
    queue: { type: "string", value: "NAME", summary: "only those of this queue" },
    owner: { type: "string", value: "NAME", summary: "only those of this owner" },
    status: {
      type: "string",
      value: "STATUS",
      many: true,
      summary: "only pending, running, suspended, done, failed or cancelled ones",
    },
  },
  examples: ["dcnr job list", "dcnr job list --status pending --status suspended --queue night --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const queue = flags.optionalText("queue");
      const owner = flags.optionalText("owner");
      const jobs = await client.jobs.list({
        ...(queue === undefined ? {} : { queue }),
        ...(owner === undefined ? {} : { owner }),
        statuses: flags.texts("status"),
      });
      if (flags.is("json")) return void out.json(jobs);
      if (jobs.length === 0)
        return void out.advice("No jobs. Submit some with dcnr job submit FILE.yaml, or dcnr train");
      return void showJobs(out, jobs);
    }),
};
