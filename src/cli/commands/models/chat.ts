// `dcnr chat`: a conversation with a served model in the terminal.

import { createInterface } from "node:readline/promises";
import type { ChatTurn } from "../../../client/calls/models.ts";
import { fail } from "../../../core/errors.ts";
import type { Command } from "../../command.ts";
import { generationFrom, generationOptions, printAnswer } from "../../flags/generation.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Talk to a served model. An empty line or Ctrl-D ends the conversation, Ctrl-C an answer.",
  details:
    "A model that was taught to converse remembers the conversation; others go on with each line by itself. Peers that host the model's VNodes see the activations of what you write: do not tell it secrets.",
  positionals: [{ name: "MODEL" }],
  options: {
    ...connectionOptions,
    ...generationOptions,
    seed: {
      type: "number",
      most: Number.MAX_SAFE_INTEGER,
      summary: "the same seed gives the same answers (default: another each time)",
    },
    system: { type: "string", value: "TEXT", summary: "what the model is told before the conversation" },
  },
  examples: ["dcnr chat gpt-demo", "echo 'Call me' | dcnr chat gpt-demo --max-tokens 40"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const model = context.arguments[0] ?? "";
      const json = flags.is("json");
      const known = (await client.models.list()).find(({ name }) => name === model);
      if (!known)
        fail("not_found", `there is no model "${model}": see dcnr model list, or serve one with dcnr serve SESSION`);
      const converses = known.hasChatTemplate;
      const system = flags.optionalText("system");
      if (system !== undefined && !converses)
        fail("invalid_argument", `--system is for models with a chat template: ${model} has none`);
      const turns: ChatTurn[] = system === undefined ? [] : [{ role: "system", content: system }];
      const input = createInterface({ input: process.stdin, output: out.isTerminal ? process.stderr : undefined });
      const ended = new Promise<undefined>((resolve) => {
        input.once("close", () => resolve(undefined));
        signal.addEventListener("abort", () => input.close(), { once: true });
      });
      const first = flags.optionalNumber("seed");
      let asked = 0;
      // With a seed each answer still has its own: the same question twice may be answered in two ways.
      const nextSeed = () => (first === undefined ? Math.floor(Math.random() * 2 ** 32) : first + asked++);
      const lines = input[Symbol.asyncIterator]();
      for (;;) {
        if (out.isTerminal) process.stderr.write(out.tone("accent", "> "));
        const next = await Promise.race([lines.next(), ended]);
        const line = next?.value as string | undefined;
        if (next === undefined || next.done || line === undefined || line.trim() === "") break;
        turns.push({ role: "user", content: line });
        const prompt = converses ? turns : line;
        const answer = await printAnswer(
          client,
          model,
          prompt,
          { ...generationFrom(flags, signal), seed: nextSeed() },
          out,
          json,
        );
        turns.push({ role: "assistant", content: answer.text });
        if (json) out.json(answer);
        if (signal.aborted) break;
      }
      input.close();
      return undefined;
    }),
};
