// `dcnr provider remove`: its machines hand their work over and end, then it is forgotten.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Remove a provider: its machines hand their work over and end, then it is forgotten.",
  positionals: [{ name: "NAME" }],
  options: connectionOptions,
  examples: ["dcnr provider remove cluster"],
  run: (context) =>
    withClient(context, async (client) => {
      const [name = ""] = context.arguments;
      await client.providers.remove(name);
      if (context.flags.is("json")) context.out.json({ removing: name });
      else context.out.advice(`provider ${name} ends when its machines have handed over: dcnr provider list`);
      return undefined;
    }),
};
