// `dcnr queue delete`: deletes a queue that nobody waits in.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Delete a queue in which no job waits or runs. The default queue only loses its quotas.",
  positionals: [{ name: "QUEUE" }],
  options: connectionOptions,
  examples: ["dcnr queue delete night"],
  run: (context) =>
    withClient(context, async (client) => {
      await client.queues.delete(context.arguments[0] ?? "");
      if (context.flags.is("json")) context.out.json({ deleted: context.arguments[0] });
      else context.out.line(`queue ${context.arguments[0]} is deleted`);
      return undefined;
    }),
};
