// `dcnr train`: a job of one line that trains a network, watched until it ends.

import { trainSpec } from "../../../client/calls/sessions.ts";
import type { Command } from "../../command.ts";
import { adaptedNetwork, adapterOptions, adapterWish } from "../../content/adapters.ts";
import { ensureDataset } from "../../content/builtin.ts";
import { settingsFrom, trainingOptions } from "../../flags/training.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { follow, showSession } from "../../shown/sessions.ts";

export const command: Command = {
  summary: "Train a network on a dataset and watch it. Ctrl-C stops watching, not the training.",
  details: "The same settings and seed give the same step root, on any number of PNodes and through any failures.",
  positionals: [{ name: "NETWORK" }],
  options: {
    ...connectionOptions,
    ...trainingOptions,
    ...adapterOptions,
    queue: { type: "string", value: "NAME", summary: "queue in which it waits for room (default: default)" },
    class: {
      type: "string",
      value: "NAME",
      summary: "low, normal, high or urgent (default: normal)",
      choices: ["low", "normal", "high", "urgent"],
    },
    detach: { type: "boolean", summary: "return once it is submitted" },
  },
  examples: [
    "dcnr train mlp --dataset mnist --steps 300 --batch 64 --validate-every 100",
    "dcnr train mlp --dataset mnist --time 10m --detach --json",
    "dcnr train gpt2 --from gpt2 --dataset letters --steps 200 --rate 0.0001",
    "dcnr train gpt2 --from gpt2 --adapter 8 --adapter-alpha 16 --dataset letters --steps 200",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const [network = ""] = context.arguments;
      const wish = adapterWish(flags);
      const settings = settingsFrom(context, wish ? await adaptedNetwork(client, network, wish) : network);
      await ensureDataset(client, flags.text("dataset"), out);
      const [job] = await client.jobs.submit([
        {
          kind: "train",
          queue: flags.optionalText("queue") ?? "",
          priority: flags.optionalText("class") ?? "",
          spec: trainSpec(settings),
        },
      ]);
      let session = await client.sessions.get(job?.session ?? "");
      if (!flags.is("json")) out.note(`session ${session.id}`);
      if (!flags.is("detach")) session = (await follow(client, session.id, out, signal)) ?? session;
      if (flags.is("json")) out.json(session);
      else if (signal.aborted) out.advice(`stopped watching; the session goes on: dcnr session watch ${session.id}`);
      else showSession(out, session);
      return session.status === "failed" ? 1 : 0;
    }),
};
