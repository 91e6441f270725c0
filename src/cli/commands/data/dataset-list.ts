// `dcnr dataset list`: what the network can be trained on.

import type { Command } from "../../command.ts";
import { contentOf, datasetJson, splitsOf } from "../../content/datasets.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "List datasets.",
  options: connectionOptions,
  examples: ["dcnr dataset list", "dcnr dataset list --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const datasets = await client.datasets.list();
      if (flags.is("json")) return void out.json(datasets.map(datasetJson));
      if (datasets.length === 0) return void out.advice("No datasets yet. Add one with dcnr dataset add NAME SOURCE");
      out.table(
        [
          { title: "NAME" },
          { title: "KIND" },
          { title: "CONTENT", align: "right" },
          { title: "SIZE", align: "right" },
          { title: "SPLITS", shrink: true },
          { title: "HASH" },
        ],
        datasets.map((one) => [
          one.name,
          one.kind,
          contentOf(one),
          bytes(one.bytes),
          splitsOf(one),
          one.hash.slice(0, 12),
        ]),
      );
      return undefined;
    }),
};
