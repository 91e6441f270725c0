// `dcnr nodes policy`: who may lend machines to the network.

import { fail } from "../../../core/errors.ts";
import { entryOf } from "../../../core/words/table.ts";
import { JoinPolicy } from "../../../protocol/gen/dcnr/v1/membership_pb.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

const policies: Readonly<Record<string, JoinPolicy>> = {
  open: JoinPolicy.OPEN,
  invited: JoinPolicy.INVITED,
  listed: JoinPolicy.LISTED,
};

export const command: Command = {
  summary:
    "Who may join: open (everybody), invited (by dcnr invite) or listed (by dcnr nodes admit). Shows it, or sets it.",
  details: "Machines that are here already stay, but need an invite or to be admitted once they come back.",
  positionals: [{ name: "POLICY", optional: true }],
  options: connectionOptions,
  examples: ["dcnr nodes policy", "dcnr nodes policy invited"],
  run: (context) =>
    withClient(context, async (client) => {
      const [wanted] = context.arguments;
      if (wanted !== undefined) {
        const policy =
          entryOf(policies, wanted) ??
          fail("invalid_argument", `there is no policy "${wanted}": open, invited or listed`);
        await client.members.setPolicy(policy);
      }
      const { policy } = await client.members.policy();
      const name = Object.keys(policies).find((one) => policies[one] === policy) ?? "open";
      if (context.flags.is("json")) context.out.json({ policy: name });
      else context.out.line(name);
      return undefined;
    }),
};
