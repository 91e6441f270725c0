// `dcnr nodes admit`: the key of a machine that may join, whatever the network's policy.

import { fail } from "../../../core/errors.ts";
import { isKeyId } from "../../../core/keys.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Let a machine join by its key, whatever the policy; also one that was sent away.",
  positionals: [{ name: "KEY" }],
  options: connectionOptions,
  examples: ["dcnr nodes admit rwvx4qxcf2qkn5m5k5mmsyzy2fvgfjp6hcmtqgqj3wq6v5s7r2fa"],
  run: (context) =>
    withClient(context, async (client) => {
      const id = context.arguments[0] ?? "";
      if (!isKeyId(id)) fail("invalid_argument", `${id} is no key's id: join prints it, 52 letters and digits`);
      await client.members.admit(id);
      if (context.flags.is("json")) context.out.json({ id });
      else context.out.line(`${id} may join`);
      return undefined;
    }),
};
