// `dcnr network list`: the networks that were created.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "List networks.",
  options: connectionOptions,
  examples: ["dcnr network list", "dcnr network list --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const networks = await client.networks.list();
      const { out } = context;
      if (context.flags.is("json")) return void out.json(networks);
      if (networks.length === 0)
        return void out.line("No networks yet. Create one: dcnr network create examples/mlp.yaml");
      out.table(
        [
          { title: "NETWORK" },
          { title: "PARAMETERS", align: "right" },
          { title: "NODES", align: "right" },
          { title: "VNODES", align: "right" },
          { title: "HASH", shrink: true },
        ],
        networks.map((network) => [
          network.id,
          network.parameters.toLocaleString("en"),
          String(network.nodes),
          String(network.vnodes),
          network.hash,
        ]),
      );
      return undefined;
    }),
};
