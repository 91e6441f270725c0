// `dcnr infer`: one prompt, one answer; or a forward pass over samples of a dataset.

import { fail } from "../../core/errors.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import { generationFrom, generationOptions, printAnswer } from "../generation.ts";

export const command: Command = {
  summary: "Continue a prompt with a served model, or run samples of a dataset through it.",
  positionals: [{ name: "MODEL" }, { name: "PROMPT", optional: true }],
  options: {
    ...connectionOptions,
    ...generationOptions,
    dataset: { type: "string", value: "NAME", summary: "forward samples of this dataset instead of a prompt" },
    split: { type: "string", value: "NAME", summary: "split of the dataset", default: "all" },
    start: { type: "number", summary: "first sample", default: 0 },
    count: { type: "number", summary: "number of samples", default: 1 },
  },
  examples: [
    'dcnr infer gpt-demo "Call me" --temperature 0.7',
    "dcnr infer mlp --dataset mnist --split validation --count 3 --json",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const [model = "", prompt] = context.arguments;
      if (flags.has("dataset")) {
        const { outputs } = await client.models.forward(model, {
          dataset: flags.text("dataset"),
          split: flags.text("split"),
          start: BigInt(flags.number("start")),
          count: flags.number("count"),
        });
        out.json(
          Object.fromEntries(
            Object.entries(outputs).map(([name, tensor]) => [
              name,
              { shape: tensor.shape, values: floats(tensor.data) },
            ]),
          ),
        );
        return undefined;
      }
      if (prompt === undefined)
        fail("invalid_argument", 'dcnr infer needs a prompt: dcnr infer MODEL "Once upon a time"');
      const json = flags.is("json");
      if (!json) out.raw(prompt);
      const answer = await printAnswer(client, model, prompt, generationFrom(flags, signal), out, json);
      if (json) out.json(answer);
      return undefined;
    }),
};

function floats(bytes: Uint8Array): number[] {
  const copy = bytes.slice();
  return [...new Float32Array(copy.buffer, 0, copy.byteLength / 4)];
}
