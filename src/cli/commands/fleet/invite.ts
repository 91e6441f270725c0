// `dcnr invite`: a link with which others lend their machines.

import { plural } from "../../../core/words/plural.ts";
import { formatInviteLink } from "../../../protocol/identity/invite-link.ts";
import { areOnlyHere } from "../../../protocol/routes/address.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { qrCode } from "../../shown/qr-code.ts";

const secondsPerDay = 86_400;

export const command: Command = {
  summary: "Make a link with which others lend their machines: dcnr join LINK.",
  details:
    "The link holds the orchestrators' addresses, the network's key and a token that lets machines in. Whoever has it can join as long as it lasts.",
  options: {
    ...connectionOptions,
    uses: { type: "number", least: 1, summary: "machines that may join with it", default: 1 },
    days: { type: "number", least: 1, most: 365, summary: "days until it expires", default: 7 },
    name: { type: "string", value: "NAME", summary: "the network's name, for whoever gets the link", default: "" },
    note: { type: "string", value: "TEXT", summary: "whom it is for; kept with the network's events", default: "" },
    qr: { type: "boolean", summary: "show it as a QR code too" },
  },
  examples: ["dcnr invite", "dcnr invite --uses 20 --days 1 --name 'Our lab' --qr"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [uses, days] = [flags.number("uses"), flags.number("days")];
      const made = await client.members.invite({
        uses,
        lifetimeSeconds: days * secondsPerDay,
        note: flags.text("note"),
      });
      const link = formatInviteLink({
        addresses: made.orchestrators,
        key: made.key,
        token: made.token,
        name: flags.text("name"),
      });
      if (flags.is("json")) return void out.json({ link, uses, expiresWallMs: made.expiresWallMs });
      if (flags.is("qr")) out.line(qrCode(link));
      out.note(
        `${uses === 1 ? "one machine" : `${uses} machines`} may join with this within ${plural(days, "day")}; give it to nobody else:`,
      );
      out.line(`dcnr join '${link}'`);
      if (areOnlyHere(made.orchestrators))
        out.note(
          "only this machine reaches the orchestrator, so nobody else can use the link: start it with --listen 0.0.0.0:7700 first",
        );
      return undefined;
    }),
};
