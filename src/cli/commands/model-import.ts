// `dcnr model import`: a Hugging Face model folder becomes a model of the network, ready to be served or trained on.

import { importHuggingFace } from "../../models/huggingface.ts";
import { storeStates } from "../../models/states.ts";
import { remoteSink } from "../builtin.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import { bytes, Progress } from "../progress.ts";

export const command: Command = {
  summary:
    "Import a Hugging Face model folder (config.json, safetensors, tokenizer.json): Llama, Qwen2 or GPT-2 family.",
  positionals: [{ name: "DIR" }],
  options: {
    ...connectionOptions,
    name: { type: "string", value: "NAME", summary: "name of the model (default: the folder's)" },
    context: {
      type: "number",
      value: "N",
      summary: "tokens that prompt and answer must fit (default: the model's, at most 2048)",
    },
    definition: { type: "boolean", summary: "only print the network definition; nothing is uploaded" },
  },
  examples: [
    "dcnr model import ./Qwen2.5-0.5B",
    "dcnr model import ./gpt2 --context 512 --name gpt2",
    "dcnr model import ./gpt2 --definition",
  ],
  run: (context) => {
    const { flags, out } = context;
    const folder = context.arguments[0] ?? "";
    const open = () =>
      importHuggingFace(folder, { name: flags.optionalText("name"), context: flags.optionalNumber("context") });
    if (flags.is("definition")) return open().then((model) => void out.raw(model.definition));
    return withClient(context, async (client) => {
      const model = await open();
      const progress = new Progress(out, model.name);
      const states = await storeStates(model, {
        blobs: remoteSink(client),
        onProgress: ({ vnodes, of, bytes: done }) => {
          context.signal.throwIfAborted();
          progress.update(vnodes, of, `VNodes, ${bytes(done)}`);
        },
      });
      const tokenizer =
        model.tokenizer === undefined ? "" : await client.datasets.upload(new TextEncoder().encode(model.tokenizer));
      const registered = await client.models.register({
        name: model.name,
        definition: model.definition,
        states: Object.fromEntries([...states].map(([vnode, state]) => [vnode, state.hash])),
        ...(tokenizer ? { tokenizer } : {}),
      });
      if (flags.is("json")) out.json(registered);
      else
        out.line(
          `imported ${registered.name}: ${registered.parameters.toLocaleString("en")} parameters, context ${model.context}. Serve it with dcnr serve ${registered.name}`,
        );
      return undefined;
    });
  },
};
