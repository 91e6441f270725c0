// `dcnr nodes forget`: the record of a machine that is gone and will not come back.

import type { Command } from "../../command.ts";
import { pnodeCalled } from "../../flags/pnode-names.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Remove the record of a PNode that is gone. One that was sent away stays so.",
  positionals: [{ name: "PNODE" }],
  options: {
    ...connectionOptions,
  },
  examples: ["dcnr nodes forget maple"],
  run: (context) =>
    withClient(context, async (client) => {
      const { id, name } = await pnodeCalled(client, context.arguments[0] ?? "");
      await client.members.forget(id);
      const said = "is forgotten";
      if (context.flags.is("json")) context.out.json({ id, name });
      else context.out.line(`PNode ${name || id} ${said}`);
      return undefined;
    }),
};
