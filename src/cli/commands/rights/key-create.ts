// `dcnr key create`: an API key for callers that are not on the orchestrator's machine.

import type { Command } from "../../command.ts";
import { dayOf, keyOptions, keyWish, scopesText } from "../../flags/key-wishes.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Create an API key. Its secret is shown once.",
  details:
    "People who use dcnr themselves need no secret: dcnr key admit gives rights to the key that they have already.",
  positionals: [{ name: "NAME" }],
  options: { ...connectionOptions, ...keyOptions },
  examples: [
    "dcnr key create my-app",
    "dcnr key create trainer --owner Ada --scope train --scope generate --rate 600 --expires 90d",
    "dcnr key create thesis --owner Ben --scope train --network gpt-small --own-only",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const answer = await client.keys.create(keyWish(context.arguments[0] ?? "", flags));
      if (flags.is("json")) return void out.json(answer);
      const { key } = answer;
      if (key)
        out.note(
          `key ${key.id} of ${key.owner} (${scopesText(key)}), expires: ${dayOf(key.expiresWallMs, "never")}; ` +
            "keep the secret, it is not shown again:",
        );
      out.line(answer.secret);
      return undefined;
    }),
};
