// `dcnr queue list`: queues with their quotas and what is used of them.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showQueues } from "../../shown/queues.ts";

export const command: Command = {
  summary: "List queues: quotas, what is used and borrowed, and how many jobs wait.",
  options: connectionOptions,
  examples: ["dcnr queue list", "dcnr queue list --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const queues = await client.queues.list();
      if (context.flags.is("json")) context.out.json(queues);
      else showQueues(context.out, queues);
      return undefined;
    }),
};
