// `dcnr provider test`: says in words whether a provider could start machines. It starts none.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showOffers } from "../../shown/providers.ts";

export const command: Command = {
  summary: "Look whether a provider could start machines, and say what is wrong. Starts none.",
  positionals: [{ name: "NAME" }],
  options: connectionOptions,
  examples: ["dcnr provider test cluster"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const { findings, offers } = await client.providers.test(context.arguments[0] ?? "");
      const isWell = findings.every((one) => one.isWell);
      if (flags.is("json")) out.json({ isWell, findings, offers });
      else {
        for (const one of findings) out.line(`${one.isWell ? "well " : "WRONG"}  ${one.sentence}`);
        showOffers(out, offers, "       ");
      }
      return isWell ? 0 : 1;
    }),
};
