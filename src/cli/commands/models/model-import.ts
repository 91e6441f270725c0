// `dcnr model import`: files of weights become a model of the network, ready to be served or trained on.

import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { Client } from "../../../client/client.ts";
import { fail } from "../../../core/errors.ts";
import { loadTokenizer } from "../../../data/bpe/json.ts";
import { composedTokens } from "../../../models/chats/chat.ts";
import { type ImportedModel, importHuggingFace } from "../../../models/files/huggingface.ts";
import { openNetworkFile } from "../../../models/files/network-file.ts";
import { importGguf } from "../../../models/gguf/import.ts";
import type { Command, CommandContext, Flags } from "../../command.ts";
import { importAdapter } from "../../content/adapters.ts";
import { type ModelToStore, storeModel } from "../../content/model-files.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import type { Output } from "../../shown/output.ts";

export const command: Command = {
  summary:
    "Import a Hugging Face model folder (18 families, from GPT-2 to Mixtral), a GGUF file, or what dcnr has exported.",
  details:
    "A folder has config.json, safetensors and tokenizer.json. A .gguf file and an exported .safetensors file stand alone.",
  positionals: [{ name: "DIR|FILE" }],
  options: {
    ...connectionOptions,
    name: { type: "string", value: "NAME", summary: "name of the model and its network (default: its own)" },
    context: {
      type: "number",
      least: 1,
      value: "N",
      summary: "tokens that prompt and answer must fit (default: the model's, at most 2048)",
    },
    onto: {
      type: "string",
      value: "MODEL",
      summary: "DIR is an adapter of PEFT (adapter_config.json): put it beside the weights of this model",
    },
    definition: { type: "boolean", summary: "only print the network definition; nothing is uploaded" },
  },
  examples: [
    "dcnr model import ./Qwen2.5-0.5B",
    "dcnr model import ./gpt2 --context 512 --name gpt2",
    "dcnr model import llama-3.2-1b-q8_0.gguf --name llama",
    "dcnr model import trained.safetensors --name mine",
    "dcnr model import ./gpt2 --definition",
    "dcnr model import ./letters-lora --onto gpt2 --name gpt2-letters",
  ],
  run: (context) => {
    const { flags, out } = context;
    const path = context.arguments[0] ?? "";
    if (flags.is("definition")) return openModel(path, flags).then((model) => void out.raw(model.definition));
    return withClient(context, async (client) => {
      const opened = await (flags.has("onto") ? openAdapter(context, client, path) : openModel(path, flags));
      warnOfComposed(opened, out);
      warnOfContext(opened, out);
      const model = await storeModel(context, client, opened);
      if (flags.is("json")) return void out.json(model);
      const context_ = model.context > 0 ? `, context ${model.context}` : "";
      out.line(`imported ${model.name}: ${model.parameters.toLocaleString("en")} parameters${context_}`);
      out.advice(`Serve it: dcnr serve ${model.name}   or train it: dcnr train ${model.name} --from ${model.name}`);
      return undefined;
    });
  },
};

/** A shorter context than the model's own must not come as a surprise when a prompt is refused. */
function warnOfContext({ context, positions }: Partial<ImportedModel> & ModelToStore, out: Output): void {
  if (context !== undefined && positions !== undefined && context < positions)
    out.note(
      `its context is cut to ${context} of the ${positions} tokens it was made for: prompts and answers beyond are refused; choose with --context`,
    );
}

function warnOfComposed({ chat, tokenizer }: ModelToStore, out: Output): void {
  if (!chat || tokenizer === undefined) return;
  const composed = composedTokens(chat, loadTokenizer(tokenizer));
  if (composed.length > 0)
    out.note(
      `its chat template puts ${composed.join(", ")} together from parts: in chats they will be text, not control tokens; write them out in chat_template.jinja`,
    );
}

async function openAdapter(context: CommandContext, client: Client, path: string): Promise<ModelToStore> {
  const { flags } = context;
  for (const flag of ["context", "definition"])
    if (flags.has(flag))
      fail("invalid_argument", `--${flag} is not for adapters: the model that they stand beside has its own`);
  const name = flags.optionalText("name") ?? fail("invalid_argument", "--name is missing: an adapted model needs one");
  return importAdapter(context, client, path, { base: flags.text("onto"), name });
}

async function openModel(path: string, flags: Flags): Promise<ModelToStore> {
  const name = flags.optionalText("name");
  const found = await stat(path).catch(() => fail("not_found", `there is no file or folder ${path}`));
  if (!found.isDirectory() && !/\.(safetensors|gguf)$/i.test(path))
    fail(
      "invalid_argument",
      `${path} is no model: give a Hugging Face folder, a .gguf file, or a .safetensors file that dcnr exported`,
    );
  const exported = found.isDirectory() ? join(path, "model.safetensors") : path;
  if (found.isDirectory() && !(await isExported(path)))
    return importHuggingFace(path, { name, context: flags.optionalNumber("context") });
  if (/\.gguf$/i.test(path)) return importGguf(path, { name, context: flags.optionalNumber("context") });
  if (flags.has("context"))
    fail("invalid_argument", `--context is for Hugging Face models and GGUF files: ${path} has its own`);
  const file = await openNetworkFile(exported);
  return name === undefined ? file : { ...file, name };
}

/** Our own folders have the definition beside the weights, Hugging Face's have config.json. */
async function isExported(folder: string): Promise<boolean> {
  const has = (file: string) =>
    stat(join(folder, file)).then(
      () => true,
      () => false,
    );
  return (await has("network.yaml")) && !(await has("config.json"));
}
