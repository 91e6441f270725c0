// `dcnr provider list`: providers with what they offer, what runs there and what it costs.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { showProviders } from "../../shown/providers.ts";

export const command: Command = {
  summary: "List providers: machines, offers, costs, and what is wrong.",
  options: connectionOptions,
  examples: ["dcnr provider list", "dcnr provider list --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const providers = await client.providers.list();
      if (context.flags.is("json")) context.out.json(providers);
      else showProviders(context.out, providers);
      return undefined;
    }),
};
