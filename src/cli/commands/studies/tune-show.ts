// `dcnr tune show`: one study with its trials.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { followStudy, showStudy } from "../../shown/studies.ts";

export const command: Command = {
  summary: "Show a study: every trial with its settings, how far it came, and why it was stopped.",
  positionals: [{ name: "STUDY" }],
  options: { ...connectionOptions, watch: { type: "boolean", summary: "wait until the study has ended" } },
  examples: ["dcnr tune show mlp-rates", "dcnr tune show mlp-rates --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      let study = await client.studies.get(context.arguments[0] ?? "");
      if (flags.is("watch")) study = await followStudy(client, study.id, out, signal);
      if (flags.is("json")) out.json(study);
      else showStudy(out, study);
      return undefined;
    }),
};
