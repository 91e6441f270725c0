// `dcnr train`: creates a training session, starts it, and watches it until it ends.

import type { SessionSettingsInit } from "../../client/client.ts";
import { builtinNames, ensureDataset } from "../builtin.ts";
import type { Command, CommandContext, OptionSpec } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import { follow, showSession } from "../sessions.ts";

export const trainingOptions: Readonly<Record<string, OptionSpec>> = {
  dataset: { type: "string", value: "NAME", summary: `dataset to train on (built in: ${builtinNames.join(", ")})` },
  split: { type: "string", value: "NAME", summary: "split of the dataset", default: "train" },
  "validation-split": { type: "string", value: "NAME", summary: "split to validate on", default: "validation" },
  steps: { type: "number", summary: "steps to train", default: 200 },
  epochs: { type: "number", summary: "train this many epochs instead of --steps" },
  batch: { type: "number", summary: "samples in a step", default: 32 },
  microbatches: { type: "number", summary: "pieces of a batch that travel on their own", default: 4 },
  rate: { type: "number", summary: "learning rate", default: 0.001 },
  schedule: {
    type: "string",
    value: "NAME",
    summary: "learning rate over time: constant or cosine",
    default: "constant",
  },
  warmup: { type: "number", summary: "steps until the rate is reached", default: 0 },
  seed: { type: "number", summary: "decides initial weights, order of samples and dropout", default: 1 },
  numerics: {
    type: "string",
    value: "NAME",
    summary: "native (fast) or portable (the same bits on every machine)",
    default: "native",
  },
  "checkpoint-every": { type: "number", summary: "steps between checkpoints", default: 20 },
  "validate-every": { type: "number", summary: "steps between validations; 0: never", default: 0 },
  "clip-norm": { type: "number", summary: "largest gradient norm of a VNode; 0: no clipping", default: 0 },
  replicas: { type: "number", summary: "PNodes that execute each VNode", default: 1 },
  from: {
    type: "string",
    value: "SOURCE",
    summary: "start from the weights of this session or model, not from the seed",
  },
  spread: { type: "number", summary: "PNodes to use at least; 1: as many as make it fast", default: 1 },
};

export const command: Command = {
  summary: "Train a network on a dataset and watch it. Ctrl-C stops watching, not the training.",
  details: "The same settings and seed give the same step root, on any number of PNodes and through any failures.",
  positionals: [{ name: "NETWORK" }],
  options: {
    ...connectionOptions,
    ...trainingOptions,
    detach: { type: "boolean", summary: "return once it has started" },
  },
  examples: [
    "dcnr train mlp --dataset mnist --steps 300 --batch 64 --validate-every 100",
    "dcnr train mlp --dataset mnist --detach --json",
    "dcnr train gpt2 --from gpt2 --dataset letters --steps 200 --rate 0.0001",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const settings = settingsFrom(context, context.arguments[0] ?? "");
      await ensureDataset(client, flags.text("dataset"), out);
      let session = await client.sessions.create(settings);
      if (!flags.is("json")) out.note(`session ${session.id}`);
      if (!flags.is("detach")) session = (await follow(client, session.id, out, signal)) ?? session;
      if (flags.is("json")) out.json(session);
      else if (signal.aborted) out.line(`stopped watching; the session goes on: dcnr session watch ${session.id}`);
      else showSession(out, session);
      return session.status === "failed" ? 1 : 0;
    }),
};

export function settingsFrom({ flags }: Pick<CommandContext, "flags">, network: string): SessionSettingsInit {
  return {
    network,
    dataset: flags.text("dataset"),
    split: flags.text("split"),
    validationSplit: flags.text("validation-split"),
    steps: BigInt(flags.optionalNumber("epochs") === undefined ? flags.number("steps") : 0),
    epochs: flags.optionalNumber("epochs") ?? 0,
    batch: flags.number("batch"),
    microbatches: flags.number("microbatches"),
    seed: BigInt(flags.number("seed")),
    numerics: flags.text("numerics"),
    checkpointEvery: flags.number("checkpoint-every"),
    validateEvery: flags.number("validate-every"),
    clipNorm: flags.number("clip-norm"),
    replicas: flags.number("replicas"),
    initialState: flags.optionalText("from") ?? "",
    spread: flags.number("spread"),
    learningRate: {
      schedule: flags.text("schedule"),
      base: flags.number("rate"),
      warmupSteps: BigInt(flags.number("warmup")),
      finalShare: 0.1,
    },
  };
}
