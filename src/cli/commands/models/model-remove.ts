// `dcnr model remove`: forgets a model, an imported one included.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Stop serving a model and forget it. Sessions and networks stay.",
  positionals: [{ name: "MODEL" }],
  options: connectionOptions,
  examples: ["dcnr model remove gpt2"],
  run: (context) =>
    withClient(context, async (client) => {
      const name = context.arguments[0] ?? "";
      await client.models.stop(name, { forget: true });
      if (context.flags.is("json")) context.out.json({ removed: name });
      else context.out.line(`removed ${name}`);
      return undefined;
    }),
};
