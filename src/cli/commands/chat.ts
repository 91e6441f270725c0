// `dcnr chat`: a conversation with a served model in the terminal.

import { createInterface } from "node:readline/promises";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import { generationFrom, generationOptions, printAnswer } from "../generation.ts";

export const command: Command = {
  summary: "Talk to a served model. An empty line or Ctrl-D ends the conversation, Ctrl-C an answer.",
  details: "Peers that host the model's VNodes see the activations of what you write: do not tell it secrets.",
  positionals: [{ name: "MODEL" }],
  options: { ...connectionOptions, ...generationOptions },
  examples: ["dcnr chat gpt-demo", "echo 'Call me' | dcnr chat gpt-demo --max-tokens 40"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const model = context.arguments[0] ?? "";
      const json = flags.is("json");
      const input = createInterface({ input: process.stdin, output: out.isTerminal ? process.stderr : undefined });
      const ended = new Promise<undefined>((resolve) => {
        input.once("close", () => resolve(undefined));
        signal.addEventListener("abort", () => input.close(), { once: true });
      });
      const lines = input[Symbol.asyncIterator]();
      for (;;) {
        if (out.isTerminal) process.stderr.write(out.tone("accent", "> "));
        const next = await Promise.race([lines.next(), ended]);
        const line = next?.value as string | undefined;
        if (next === undefined || next.done || line === undefined || line.trim() === "") break;
        const answer = await printAnswer(client, model, line, generationFrom(flags, signal), out, json);
        if (json) out.json(answer);
        if (signal.aborted) break;
      }
      input.close();
      return undefined;
    }),
};
