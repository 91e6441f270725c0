// `dcnr key admit`: rights for a person's own key. No secret travels.

import type { Command } from "../../command.ts";
import { dayOf, keyOptions, keyWish, scopesText } from "../../flags/key-wishes.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Give rights to a person by the key that dcnr whoami shows there. No secret travels.",
  details: "Whoever holds the key proves it with every connection. Admitting it once more changes its rights.",
  positionals: [{ name: "KEY" }],
  options: { ...connectionOptions, ...keyOptions },
  examples: [
    "dcnr key admit rwvx4qxcf2qkn5m5k5mmsyzy2fvgfjp6hcmtqgqj3wq6v5s7r2fa --owner Ada --scope train --expires 365d",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const { key } = await client.keys.admit(context.arguments[0] ?? "", keyWish(flags.text("owner"), flags));
      if (flags.is("json")) return void out.json(key);
      if (key)
        out.line(`${key.owner} may: ${scopesText(key)}, expires: ${dayOf(key.expiresWallMs, "never")} (key ${key.id})`);
      return undefined;
    }),
};
