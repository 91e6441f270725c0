// `dcnr nodes revoke`: a machine that is sent away for good.

import type { Command } from "../../command.ts";
import { pnodeCalled } from "../../flags/pnode-names.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Send a PNode away: its stream ends, its work goes elsewhere, its key is refused.",
  positionals: [{ name: "PNODE" }],
  options: {
    ...connectionOptions,
    reason: { type: "string", value: "TEXT", summary: "why, for other operators", default: "" },
  },
  examples: ["dcnr nodes revoke maple --reason 'computes nonsense'"],
  run: (context) =>
    withClient(context, async (client) => {
      const { id, name } = await pnodeCalled(client, context.arguments[0] ?? "");
      await client.members.revoke(id, context.flags.text("reason"));
      const said = "is sent away; dcnr nodes admit lets it back in";
      if (context.flags.is("json")) context.out.json({ id, name });
      else context.out.line(`PNode ${name || id} ${said}`);
      return undefined;
    }),
};
