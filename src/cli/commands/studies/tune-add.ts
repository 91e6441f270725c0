// `dcnr tune add`: more trials for a study.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showStudies } from "../../shown/studies.ts";

export const command: Command = {
  summary: "Give a study more trials. What was decided before stays; with Hyperband they are brackets of their own.",
  positionals: [{ name: "STUDY" }],
  options: {
    ...connectionOptions,
    trials: { type: "number", value: "N", summary: "how many more", default: 10, least: 1, most: 10_000 },
  },
  examples: ["dcnr tune add mlp-rates --trials 9"],
  run: (context) =>
    withClient(context, async (client) => {
      const { id } = await client.studies.get(context.arguments[0] ?? "");
      const study = await client.studies.addTrials(id, context.flags.number("trials"));
      if (context.flags.is("json")) context.out.json(study);
      else showStudies(context.out, [study]);
      return undefined;
    }),
};
