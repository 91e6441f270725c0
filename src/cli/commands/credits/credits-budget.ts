// `dcnr credits budget`: what the sessions of one owner may spend together.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { wholeCredits } from "../../shown/credits.ts";

export const command: Command = {
  summary: "Set how many credits the sessions of one owner may spend together; 0 for no bound.",
  details:
    "Owners are those of API keys (dcnr key list). Sessions of an owner whose budget is spent are suspended, say so, and go on with dcnr session resume once there is more.",
  positionals: [{ name: "OWNER" }, { name: "CREDITS" }],
  options: connectionOptions,
  examples: ["dcnr credits budget ada 5000000", "dcnr credits budget ada 0"],
  run: (context) =>
    withClient(context, async (client) => {
      const [owner = "", text = ""] = context.arguments;
      const credits = wholeCredits(text);
      await client.credits.setBudget(owner, credits);
      context.out.line(
        credits === 0
          ? `Sessions of ${owner} may spend without a bound.`
          : `Sessions of ${owner} may spend ${credits} credits.`,
      );
      return undefined;
    }),
};
