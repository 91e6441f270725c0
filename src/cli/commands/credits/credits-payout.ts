// `dcnr credits payout`: notes that credits were paid for outside of DCNR, so that nobody pays for them again.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { wholeCredits } from "../../shown/credits.ts";

export const command: Command = {
  summary: "Note that credits of a machine were paid for outside of DCNR. The same --id again changes nothing.",
  positionals: [{ name: "PNODE" }, { name: "CREDITS" }],
  options: {
    ...connectionOptions,
    id: { type: "string", value: "ID", summary: "name of the payment: it is noted once" },
    note: { type: "string", value: "TEXT", summary: "for people: where the money went", default: "" },
  },
  examples: ["dcnr credits payout rwvx4qxcf2qkn5m5k5mmsyzy2fvgfjp6hcmtqgqj3wq6v5s7r2fa 120000 --id invoice-17"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [pnode = "", text = ""] = context.arguments;
      const credits = wholeCredits(text);
      await client.credits.payout({ id: flags.text("id"), pnode, credits, note: flags.text("note") });
      out.line(`${credits} credits of ${pnode} are noted as paid for.`);
      return undefined;
    }),
};
