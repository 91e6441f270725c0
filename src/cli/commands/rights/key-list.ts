// `dcnr key list`: API keys without their secrets, and people's own keys.

import { shortKeyId } from "../../../core/keys.ts";
import type { Command } from "../../command.ts";
import { dayOf, scopesText } from "../../flags/key-wishes.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "List keys: whose they are, what they are good for, until when, and their last use.",
  options: connectionOptions,
  examples: ["dcnr key list", "dcnr key list --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const keys = await client.keys.list();
      const { out } = context;
      if (context.flags.is("json")) return void out.json(keys);
      if (keys.length === 0)
        return void out.advice("No API keys. Callers on this machine need none; for others: dcnr key create NAME");
      const nowMs = Date.now();
      out.table(
        [
          ...[{ title: "KEY" }, { title: "NAME", shrink: true }, { title: "OWNER", shrink: true }],
          ...[{ title: "SCOPES", shrink: true }, { title: "EXPIRES" }, { title: "LAST USED" }],
          { title: "PER MINUTE", align: "right" },
        ],
        keys.map((key) => [
          key.personal ? `${shortKeyId(key.id)} (own)` : key.id,
          key.name,
          key.owner,
          scopesText(key),
          key.expiresWallMs !== 0n && Number(key.expiresWallMs) <= nowMs
            ? "expired"
            : dayOf(key.expiresWallMs, "never"),
          dayOf(key.lastUsedWallMs, "never"),
          key.requestsPerMinute ? String(key.requestsPerMinute) : "no limit",
        ]),
      );
      return undefined;
    }),
};
