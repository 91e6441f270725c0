// `dcnr model stop`: ends the serving of a model.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Stop serving a model. The trained session or the import stays.",
  positionals: [{ name: "MODEL" }],
  options: connectionOptions,
  examples: ["dcnr model stop gpt-demo"],
  run: (context) =>
    withClient(context, async (client) => {
      const name = context.arguments[0] ?? "";
      await client.models.stop(name);
      if (context.flags.is("json")) context.out.json({ stopped: name });
      else context.out.line(`stopped ${name}`);
      return undefined;
    }),
};
