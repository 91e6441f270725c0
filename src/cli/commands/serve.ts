// `dcnr serve`: places a trained state on PNodes that answer.

import { fail } from "../../core/errors.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../joining/connection.ts";
import { showModels } from "../shown/models.ts";

export const command: Command = {
  summary: "Serve the newest state of a session, or an imported model, under a name.",
  positionals: [{ name: "SOURCE" }],
  options: {
    ...connectionOptions,
    name: {
      type: "string",
      value: "NAME",
      summary: "name of the model (default: an import's own, else the network's)",
    },
    replicas: {
      type: "string",
      value: "N|LEAST-MOST",
      summary: "copies of the model to balance requests over; by load between two numbers, the first may be 0",
      default: "1",
    },
    spread: { type: "number", least: 1, summary: "PNodes to use at least; 1: as many as make it fast", default: 1 },
    weights: {
      type: "string",
      value: "float32|8bit|4bit",
      summary: "in how many bits weights are kept; fewer are faster, take less memory and are less exact",
      default: "float32",
    },
    provisional: { type: "boolean", summary: "also a state that is not checked yet" },
  },
  examples: [
    "dcnr serve gpt-demo-3f2a9c1b7d04",
    "dcnr serve my-import --name assistant --replicas 2",
    "dcnr serve my-import --name assistant --replicas 0-4",
    "dcnr serve my-import --weights 4bit",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [source = ""] = context.arguments;
      const name = flags.optionalText("name");
      const options = {
        ...{ ...replicasFrom(flags.text("replicas")), spread: flags.number("spread"), ...(name ? { name } : {}) },
        ...{ provisional: flags.is("provisional"), weights: flags.text("weights") },
      };
      const model = await client.models.serve(source, options);
      if (flags.is("json")) return void out.json(model);
      showModels(out, [model]);
      if (model.status !== "ready")
        out.note("a first question waits until every VNode has its weights: dcnr model list");
      if (model.context > 0)
        out.line(`Talk to it: dcnr chat ${model.name}   or   POST http://${client.address}/v1/chat/completions`);
      else out.line(`Use it: dcnr infer ${model.name} --inputs '[[...]]'   or   --dataset NAME --count 3`);
      return undefined;
    }),
};

function replicasFrom(text: string): { replicas: number } | { leastReplicas: number; mostReplicas: number } {
  const [, least, most] = /^(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  if (least === undefined || (most === undefined && Number(least) < 1) || (most !== undefined && Number(most) < 1))
    fail("invalid_argument", `--replicas takes a whole number of 1 or more, or two such as 0-4, not "${text}"`);
  return most === undefined
    ? { replicas: Number(least) }
    : { leastReplicas: Number(least), mostReplicas: Number(most) };
}
