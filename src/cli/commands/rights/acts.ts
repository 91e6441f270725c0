// `dcnr acts`: the log of administrative acts.

import { shortKeyId } from "../../../core/keys.ts";
import type { Act } from "../../../protocol/gen/dcnr/v1/rights_pb.ts";
import type { Command } from "../../command.ts";
import { parseSeconds } from "../../flags/quantities.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { plain } from "../../shown/output.ts";

export const command: Command = {
  summary: "Show administrative acts: who did what, on what, when, from where, and what became of it.",
  details: "Newest first. Acts are kept for two years. It needs the scope admin.",
  options: {
    ...connectionOptions,
    what: { type: "string", value: "METHOD", summary: "only this one, for example RevokePNode", default: "" },
    on: { type: "string", value: "NAME", summary: "only acts on this: a PNode's id, a dataset's name", default: "" },
    who: {
      type: "string",
      value: "OWNER|KEY",
      summary: "only acts with this key, or with keys of this owner",
      default: "",
    },
    since: { type: "string", value: "TIME", summary: "only those of the last 12h, 30d" },
    limit: { type: "number", least: 1, most: 1000, summary: "how many", default: 100 },
  },
  examples: ["dcnr acts", "dcnr acts --who Ada --since 30d", "dcnr acts --what RevokePNode --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const seconds = flags.has("since") ? parseSeconds(flags.text("since"), "--since") : 0;
      const { acts, nextPageToken } = await client.rights.acts({
        ...{
          what: flags.text("what"),
          subject: flags.text("on"),
          who: flags.text("who"),
          limit: flags.number("limit"),
        },
        sinceWallMs: seconds > 0 ? BigInt(Math.floor(Date.now() - seconds * 1_000)) : 0n,
      });
      if (flags.is("json")) return void out.json(acts);
      if (acts.length === 0) return void out.line("No acts like that.");
      out.table(
        [
          ...[
            { title: "WHEN (UTC)" },
            { title: "WHO", shrink: true },
            { title: "FROM", shrink: true },
            { title: "WHAT" },
          ],
          ...[
            { title: "ON", shrink: true },
            { title: "RESULT", shrink: true },
          ],
        ],
        acts.map((act) => [timeOf(act), whoOf(act), act.address, act.what, act.subject, resultOf(act)]),
      );
      if (nextPageToken !== "") out.note("there are older ones: --limit shows more, --since and --who fewer");
      return undefined;
    }),
};

function timeOf({ wallMs }: Act): string {
  return new Date(Number(wallMs)).toISOString().slice(0, 19).replace("T", " ");
}

function whoOf({ owner, key }: Act): string {
  if (key === "") return "somebody on the orchestrator's machine";
  return owner ? `${plain(owner)} (${shortKeyId(key)})` : shortKeyId(key);
}

function resultOf({ result, detail }: Act): string {
  return detail ? `${result}: ${detail}` : result;
}
