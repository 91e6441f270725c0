// `dcnr network show`: one network with its VNodes and edges, or its definition as it was submitted.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Show one network with its VNodes, or its definition as submitted.",
  positionals: [{ name: "NETWORK" }],
  options: { ...connectionOptions, yaml: { type: "boolean", summary: "print the definition, verbatim" } },
  examples: ["dcnr network show mlp", "dcnr network show mlp --yaml > copy.yaml"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const answer = await client.networks.get(context.arguments[0] ?? "");
      if (flags.is("yaml")) return void out.raw(answer.definition);
      if (flags.is("json")) return void out.json(answer);
      const { network } = answer;
      out.line(`${network?.id}: ${network?.parameters.toLocaleString("en")} parameters, definition ${network?.hash}`);
      out.line();
      out.table(
        [
          { title: "VNODE" },
          { title: "PARAMETERS", align: "right" },
          { title: "MEMORY", align: "right" },
          { title: "NODES", shrink: true },
        ],
        answer.vnodes.map((vnode) => [
          vnode.id,
          vnode.parameters.toLocaleString("en"),
          bytes(vnode.memoryBytes),
          vnode.nodes.join(" "),
        ]),
      );
      return undefined;
    }),
};
