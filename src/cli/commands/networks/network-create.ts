// `dcnr network create`: checks a YAML file and creates the network from it.

import type { Command } from "../../command.ts";
import { readTextFile } from "../../flags/files.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Create a network from a YAML definition.",
  positionals: [{ name: "FILE" }],
  options: {
    ...connectionOptions,
    id: { type: "string", value: "NAME", summary: "id of the network (default: its own name)" },
  },
  examples: ["dcnr network create examples/mlp.yaml", "dcnr network create my.yaml --id my-net --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const definition = await readTextFile(context.arguments[0] ?? "", "network definition");
      const id = flags.optionalText("id");
      const known = new Map((await client.networks.list()).map((one) => [one.id, one.hash]));
      const network = await client.networks.create(definition, id ? { id } : {});
      const before = known.get(network.id);
      const verb = before === undefined ? "created" : before === network.hash ? "already there:" : "renewed";
      if (flags.is("json")) out.json(network);
      else
        out.line(
          `${verb} network ${network.id}: ${network.nodes} nodes in ${network.vnodes} VNodes, ${network.parameters.toLocaleString("en")} parameters`,
        );
      return undefined;
    }),
};
