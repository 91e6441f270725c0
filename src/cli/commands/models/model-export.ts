// `dcnr model export`: a model as a folder of files that other programs read.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Client } from "../../../client/client.ts";
import { fail, messageOf } from "../../../core/errors.ts";
import { recognise } from "../../../models/recognise.ts";
import { adaptersOf, withoutAdapters } from "../../../network/adapters.ts";
import { compileText } from "../../../network/compile.ts";
import type { Command, CommandContext } from "../../command.ts";
import { type Exported, exportAdapter, exportFolder, exportState } from "../../content/model-files.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { bytes } from "../../shown/progress.ts";

const formats = ["auto", "huggingface", "dcnr", "peft"];

export const command: Command = {
  summary: "Write a model or a session to a folder that Transformers reads, or in dcnr's own form.",
  details:
    "A network of a known family becomes config.json, model.safetensors and tokenizer.json as Hugging Face lays them out; any other the same weights under our names, with network.yaml. Both can be imported again.",
  positionals: [{ name: "SOURCE" }, { name: "DIR" }],
  options: {
    ...connectionOptions,
    format: {
      type: "string",
      value: "FORM",
      summary:
        "huggingface (adapters merged), peft (adapters alone), dcnr, or auto: the first that fits, peft where there are adapters",
      default: "auto",
    },
  },
  examples: [
    "dcnr model export gpt-demo ./gpt-demo",
    "dcnr model export gpt-demo-3f2a9c1b7d04 ./trained --format huggingface",
    "dcnr model export gpt2-letters ./adapter --format peft",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [source = "", folder = ""] = context.arguments;
      const format = flags.text("format");
      if (!formats.includes(format))
        fail("invalid_argument", `--format is one of ${formats.join(", ")}, found "${format}"`);
      const state = await exported(context, client, format);
      await writeFile(join(folder, "network.yaml"), state.definition);
      const { step, bytes: size, family } = state;
      const tokenizer = state.tokenizer !== undefined;
      if (flags.is("json")) out.json({ source, folder, step, bytes: size, tokenizer, family });
      else
        out.line(
          `wrote ${folder}: ${bytes(size)} of weights${tokenizer && family !== "PEFT" ? ", with vocabulary" : ""}, ${formOf(family)}`,
        );
      return undefined;
    }),
};

async function exported(
  context: CommandContext,
  client: Client,
  format: string,
): Promise<Exported & { readonly family?: string }> {
  const [source = "", folder = ""] = context.arguments;
  const chosen = format === "auto" ? await formatFor(client, source) : format;
  if (chosen === "peft") return exportAdapter(context, client, source, folder);
  if (chosen === "huggingface") return exportFolder(context, client, source, folder);
  await mkdir(folder, { recursive: true }).catch((thrown) =>
    fail("failed_precondition", `the folder ${folder} cannot be made: ${messageOf(thrown)}`, thrown),
  );
  const state = await exportState(context, client, source, join(folder, "model.safetensors"));
  if (state.tokenizer !== undefined) await writeFile(join(folder, "tokenizer.json"), state.tokenizer);
  return state;
}

function formOf(family: string | undefined): string {
  if (family === undefined) return "in dcnr's own form";
  return family === "PEFT" ? "as an adapter of PEFT" : `as a ${family} model of Hugging Face`;
}

async function formatFor(client: Client, source: string): Promise<string> {
  const { definition } = await client.models.describe(source);
  const isAdapted = adaptersOf(compileText(definition)).length > 0;
  if (recognise(isAdapted ? withoutAdapters(definition) : definition) === undefined) return "dcnr";
  return isAdapted ? "peft" : "huggingface";
}
