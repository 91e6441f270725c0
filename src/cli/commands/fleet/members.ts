// `dcnr members`: everybody that one process knows by gossip, orchestrators and PNodes alike.

import type { Command } from "../../command.ts";
import { atOption, connectionOptions, withClient } from "../../joining/connection.ts";
import { showMembers } from "../../shown/members.ts";

export const command: Command = {
  summary: "List the members of the network as one of them knows them by gossip.",
  details: "Works at any orchestrator and at any PNode, also while no orchestrator is there.",
  options: { ...connectionOptions, at: atOption },
  examples: ["dcnr members", "dcnr members --at 192.168.1.21:40123 --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { members, answer } = await client.members.list();
      if (context.flags.is("json")) return void context.out.json({ ...answer, members });
      showMembers(context.out, members);
      return undefined;
    }),
};
