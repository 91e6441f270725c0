// `dcnr job logs`: what happened to a job and to what it runs, oldest first.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { timeOf } from "../../shown/jobs.ts";
import { plain } from "../../shown/output.ts";

export const command: Command = {
  summary: "Show what happened to a job and to what it runs, oldest first.",
  positionals: [{ name: "JOB" }],
  options: connectionOptions,
  examples: ["dcnr job logs job-3f2a9c1b7d04e5f6"],
  run: (context) =>
    withClient(context, async (client) => {
      const { out, flags } = context;
      const events = await client.jobs.logs(context.arguments[0] ?? "");
      if (flags.is("json")) return void out.json(events);
      for (const { wallMs, level, message } of events)
        out.line(
          `${out.tone("dim", timeOf(wallMs))} ${level === "info" ? plain(message) : out.tone("warn", plain(message))}`,
        );
      return undefined;
    }),
};
