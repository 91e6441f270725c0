// `dcnr serve`: places a trained state on PNodes that answer.

import type { Client } from "../../../client/client.ts";
import { fail } from "../../../core/errors.ts";
import { sleep } from "../../../core/world.ts";
import type { Model } from "../../../protocol/gen/dcnr/v1/inference_pb.ts";
import { realWorld } from "../../../system/world.ts";
import type { Command, CommandContext } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showModels, whenLoaded } from "../../shown/models.ts";

const askEveryMs = 500;
/** A minute: large models take longer, and nobody need wait for them. */
const asksMax = 120;

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
    draft: {
      type: "string",
      value: "SOURCE",
      summary:
        "a smaller session or model of the same vocabulary that guesses beside the head what this one says; answers are the same, faster where machines are far apart",
    },
    "draft-weights": {
      type: "string",
      value: "float32|8bit|4bit",
      summary: "in how many bits the draft's weights are kept; a model may be its own draft in fewer",
      default: "float32",
    },
    audit: {
      type: "string",
      value: "on|off",
      summary:
        "whether other machines repeat a share of the answers, and see their prompts (default: where strangers may join)",
    },
    provisional: { type: "boolean", summary: "also a state that is not checked yet" },
  },
  examples: [
    "dcnr serve gpt-demo-3f2a9c1b7d04",
    "dcnr serve my-import --name assistant --replicas 2",
    "dcnr serve my-import --name assistant --replicas 0-4",
    "dcnr serve my-import --weights 4bit",
    "dcnr serve my-import --draft my-small-import",
    "dcnr serve my-import --draft my-import --draft-weights 4bit",
    "dcnr serve my-import --audit off",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [source = ""] = context.arguments;
      const name = flags.optionalText("name");
      const audit = flags.optionalText("audit");
      const draft = flags.optionalText("draft");
      const options = {
        ...{ ...replicasFrom(flags.text("replicas")), spread: flags.number("spread"), ...(name ? { name } : {}) },
        ...{ provisional: flags.is("provisional"), weights: flags.text("weights") },
        ...(audit ? { audit } : {}),
        ...{ ...(draft ? { draft } : {}), draftWeights: flags.text("draft-weights") },
      };
      const served = await client.models.serve(source, options);
      if (flags.is("json")) return void out.json(served);
      const model = served.weights === "" ? served : await whenMeasured(context, client, served);
      showModels(out, [model]);
      if (model.status !== "ready")
        out.note("a first question waits until every VNode has its weights: dcnr model list");
      if (model.context > 0)
        out.advice(`Talk to it: dcnr chat ${model.name}   or   POST http://${client.address}/v1/chat/completions`);
      else out.advice(`Use it: dcnr infer ${model.name} --inputs '[[...]]'   or   --dataset NAME --count 3`);
      return undefined;
    }),
};

/** What few bits cost is known when the weights are loaded. */
async function whenMeasured({ out, signal }: CommandContext, client: Client, model: Model): Promise<Model> {
  const { timers } = realWorld({ logFormat: "none" });
  if (model.status !== "ready") out.note(`weights become ${model.weights}; what they lose is measured meanwhile`);
  const newest = await whenLoaded(model, {
    ask: () => client.models.list(),
    pause: () => sleep(timers, askEveryMs, signal),
    times: asksMax,
    signal,
  });
  if (newest.weightError === undefined) out.note("dcnr model list tells what the weights lost once they are loaded");
  return newest;
}

function replicasFrom(text: string): { replicas: number } | { leastReplicas: number; mostReplicas: number } {
  const [, least, most] = /^(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  if (least === undefined || (most === undefined && Number(least) < 1) || (most !== undefined && Number(most) < 1))
    fail("invalid_argument", `--replicas takes a whole number of 1 or more, or two such as 0-4, not "${text}"`);
  return most === undefined
    ? { replicas: Number(least) }
    : { leastReplicas: Number(least), mostReplicas: Number(most) };
}
