// `dcnr model export`: a model as a folder of files that other programs read.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail, messageOf } from "../../core/errors.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import { exportState } from "../model-files.ts";
import { bytes } from "../progress.ts";

export const command: Command = {
  summary: "Write a model or a session to a folder: model.safetensors, network.yaml, tokenizer.json.",
  positionals: [{ name: "SOURCE" }, { name: "DIR" }],
  options: connectionOptions,
  examples: ["dcnr model export gpt-demo ./gpt-demo", "dcnr model export gpt-demo-3f2a9c1b7d04 ./trained"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [source = "", folder = ""] = context.arguments;
      await mkdir(folder, { recursive: true }).catch((thrown) =>
        fail("failed_precondition", `the folder ${folder} cannot be made: ${messageOf(thrown)}`, thrown),
      );
      const state = await exportState(context, client, source, join(folder, "model.safetensors"));
      await writeFile(join(folder, "network.yaml"), state.definition);
      if (state.tokenizer !== undefined) await writeFile(join(folder, "tokenizer.json"), state.tokenizer);
      const { step, bytes: size } = state;
      if (flags.is("json")) out.json({ source, folder, step, bytes: size, tokenizer: state.tokenizer !== undefined });
      else out.line(`wrote ${folder}: ${bytes(size)} of weights${state.tokenizer ? ", with vocabulary" : ""}`);
      return undefined;
    }),
};
