// `dcnr key delete`: an API key or a person's own that no longer opens anything.

import { fail } from "../../../core/errors.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Delete a key: an API key, or the rights of a person's own.",
  positionals: [{ name: "KEY" }],
  options: connectionOptions,
  examples: ["dcnr key delete 3f2a9c1b7d04"],
  run: (context) =>
    withClient(context, async (client) => {
      const given = context.arguments[0] ?? "";
      // People's own keys are long: the beginning will do where it is one key's alone.
      const meant = (await client.keys.list()).filter(({ id }) => id.startsWith(given));
      if (meant.length > 1) fail("invalid_argument", `${meant.length} keys begin with ${given}: write more of it`);
      const id = meant[0]?.id ?? given;
      await client.keys.delete(id);
      if (context.flags.is("json")) context.out.json({ deleted: id });
      else context.out.line(`deleted ${id}`);
      return undefined;
    }),
};
