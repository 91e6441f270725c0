// `dcnr infer`: one prompt, one answer; or a forward pass over explicit tensors or samples of a dataset.

import type { ForwardInit } from "../../../client/calls/models.ts";
import type { Client } from "../../../client/client.ts";
import { fail } from "../../../core/errors.ts";
import type { Command, Flags } from "../../command.ts";
import { classesOfModel, likeliest } from "../../content/class-names.ts";
import { readTensor } from "../../flags/explicit-tensors.ts";
import { generationFrom, generationOptions, printAnswer } from "../../flags/generation.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Continue a prompt with a served model, or run tensors or samples of a dataset through it.",
  positionals: [{ name: "MODEL" }, { name: "PROMPT", optional: true }],
  options: {
    ...connectionOptions,
    ...generationOptions,
    inputs: {
      type: "string",
      value: "JSON",
      summary: "forward these samples instead of a prompt: [[0.1, 0.2]], @FILE, or - for standard input",
    },
    dataset: { type: "string", value: "NAME", summary: "forward samples of this dataset instead of a prompt" },
    split: { type: "string", value: "NAME", summary: "split of the dataset", default: "all" },
    start: { type: "number", summary: "first sample", default: 0 },
    count: { type: "number", least: 1, summary: "number of samples", default: 1 },
  },
  examples: [
    'dcnr infer gpt-demo "Call me" --temperature 0.7',
    "dcnr infer mlp --dataset mnist --split validation --count 3 --json",
    "dcnr infer iris --inputs '[[5.1, 3.5, 1.4, 0.2]]'",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const [model = "", prompt] = context.arguments;
      const request = await forwardOf(client, model, flags);
      if (request) {
        if (prompt !== undefined)
          fail("invalid_argument", "give a prompt, --inputs or --dataset: only one of them can be answered");
        const { outputs } = await client.models.forward(model, request);
        const names = await classesOfModel(client, model);
        const shown = Object.entries(outputs).map(([name, { shape, data }]) => {
          const values = floats(data);
          const classes = names && likeliest(shape, values, names);
          return [name, { shape, values, ...(classes ? { classes } : {}) }];
        });
        out.json(Object.fromEntries(shown));
        return undefined;
      }
      if (prompt === undefined)
        fail("invalid_argument", 'dcnr infer needs a prompt: dcnr infer MODEL "Once upon a time"');
      const json = flags.is("json");
      const answer = await printAnswer(client, model, prompt, generationFrom(flags, signal), out, json, prompt);
      if (json) out.json(answer);
      return undefined;
    }),
};

async function forwardOf(client: Client, model: string, flags: Flags): Promise<ForwardInit | undefined> {
  if (flags.has("dataset") && flags.has("inputs")) fail("invalid_argument", "give --inputs or --dataset, not both");
  if (flags.has("dataset"))
    return {
      dataset: flags.text("dataset"),
      split: flags.text("split"),
      start: BigInt(flags.number("start")),
      count: flags.number("count"),
    };
  if (!flags.has("inputs")) return undefined;
  const takesIds = ((await client.models.list()).find(({ name }) => name === model)?.context ?? 0) > 0;
  return { inputs: { inputs: await readTensor(flags.text("inputs"), takesIds ? "int32" : "float32") } };
}

function floats(bytes: Uint8Array): number[] {
  const copy = bytes.slice();
  return [...new Float32Array(copy.buffer, 0, copy.byteLength / 4)];
}
