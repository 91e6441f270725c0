// `dcnr key list`: API keys, without their secrets.

import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";

export const command: Command = {
  summary: "List API keys, without their secrets.",
  options: connectionOptions,
  examples: ["dcnr key list", "dcnr key list --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const keys = await client.keys.list();
      const { out } = context;
      if (context.flags.is("json")) return void out.json(keys);
      if (keys.length === 0)
        return void out.line("No API keys. Callers on this machine need none; for others: dcnr key create NAME");
      out.table(
        [{ title: "KEY" }, { title: "NAME" }, { title: "SCOPES" }, { title: "PER MINUTE", align: "right" }],
        keys.map((key) => [
          key.id,
          key.name,
          key.scopes.join(", "),
          key.requestsPerMinute ? String(key.requestsPerMinute) : "no limit",
        ]),
      );
      return undefined;
    }),
};
