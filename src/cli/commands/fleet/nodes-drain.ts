// `dcnr nodes drain`: a machine that stays and hosts nothing, for example before its update.

import type { Command } from "../../command.ts";
import { pnodeCalled } from "../../flags/pnode-names.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Move everything away from a PNode; it stays and gets nothing more until --undo.",
  positionals: [{ name: "PNODE" }],
  options: {
    ...connectionOptions,
    undo: { type: "boolean", summary: "let it get work again" },
  },
  examples: ["dcnr nodes drain maple", "dcnr nodes drain maple --undo"],
  run: (context) =>
    withClient(context, async (client) => {
      const { id, name } = await pnodeCalled(client, context.arguments[0] ?? "");
      const undo = context.flags.is("undo");
      await client.members.drain(id, undo);
      const said = undo ? "may get work again" : "gets no more work; what it hosts goes elsewhere";
      if (context.flags.is("json")) context.out.json({ id, name });
      else context.out.line(`PNode ${name || id} ${said}`);
      return undefined;
    }),
};
