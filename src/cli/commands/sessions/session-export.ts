// `dcnr session export`: the weights of a session in one safetensors file, with the definition.

import type { Command } from "../../command.ts";
import { exportState } from "../../content/model-files.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Write a session's weights to a safetensors file, with definition, settings and vocabulary.",
  details: "dcnr model import FILE reads it back, into this network or another.",
  positionals: [{ name: "SESSION" }, { name: "FILE" }],
  options: {
    ...connectionOptions,
    best: { type: "boolean", summary: "the state that validated best, not the last" },
    provisional: { type: "boolean", summary: "also what is stored but not checked yet" },
  },
  examples: [
    "dcnr session export gpt-demo-3f2a9c1b7d04 gpt.safetensors",
    "dcnr session export gpt-demo-3f2a9c1b7d04 best.safetensors --best",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [session = "", file = ""] = context.arguments;
      const { step, bytes: size } = await exportState(
        context,
        client,
        session,
        file,
        flags.is("best") ? "best" : "last",
        flags.is("provisional"),
      );
      if (flags.is("json")) out.json({ session, file, step, bytes: size });
      else out.line(`wrote ${file}: ${bytes(size)}, the state after step ${step}`);
      return undefined;
    }),
};
