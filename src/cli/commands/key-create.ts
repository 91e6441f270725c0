// `dcnr key create`: an API key for callers that are not on the orchestrator's machine.

import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";

export const command: Command = {
  summary: "Create an API key. Its secret is shown once.",
  positionals: [{ name: "NAME" }],
  options: {
    ...connectionOptions,
    scope: {
      type: "string",
      value: "SCOPE",
      many: true,
      summary: "generate, read, train or admin; may be repeated (default: generate)",
    },
    rate: { type: "number", summary: "requests a minute; 0 for no limit", default: 0 },
  },
  examples: ["dcnr key create my-app", "dcnr key create trainer --scope train --scope generate --rate 600"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const scopes = flags.texts("scope");
      const answer = await client.keys.create(
        context.arguments[0] ?? "",
        scopes.length > 0 ? scopes : ["generate"],
        flags.number("rate"),
      );
      if (flags.is("json")) return void out.json(answer);
      out.note(`key ${answer.key?.id} (${answer.key?.scopes.join(", ")}); keep the secret, it is not shown again:`);
      out.line(answer.secret);
      return undefined;
    }),
};
