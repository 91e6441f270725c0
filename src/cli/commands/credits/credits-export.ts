// `dcnr credits export`: the whole ledger, or a statement of one owner with proofs, as a file; or its entries as a table.

import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { fail } from "../../../core/errors.ts";
import { verifySignature } from "../../../core/keys.ts";
import type { Block } from "../../../orchestrator/ledger/block.ts";
import { statementFile, verifyFile, wholeFile } from "../../../orchestrator/ledger/files.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { fetchLedger } from "../../shown/credits.ts";

export const command: Command = {
  summary: "Export the ledger, or one owner's entries with proofs of their place in it. Verified before it is written.",
  details:
    "Whoever wants to pay money for credits needs no trust in this orchestrator: dcnr credits verify FILE checks every block, or every entry's way to the head that the network has signed.",
  positionals: [{ name: "OWNER", optional: true }],
  options: {
    ...connectionOptions,
    out: { type: "string", value: "FILE", summary: "file to write (default: standard output)" },
    format: {
      type: "string",
      value: "FORMAT",
      choices: ["json", "csv"],
      default: "json",
      summary: "json (can be verified) or csv (a line for each credit or debit)",
    },
  },
  examples: ["dcnr credits export --out ledger.jsonl", "dcnr credits export ada --format csv --out ada.csv"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [owner] = context.arguments;
      const { head, chains } = await fetchLedger(client);
      const blocks = [...chains.values()].flat();
      const { problems } = await verifyFile(wholeFile(head, blocks), verifySignature);
      if (problems.length > 0) fail("data_loss", `the ledger does not hold: ${problems.slice(0, 3).join("; ")}`);
      const owned = owner === undefined ? [] : (await client.credits.balances(owner)).map(({ pnode }) => pnode);
      if (owner !== undefined && owned.length === 0)
        fail("not_found", `${owner} has no credits: dcnr credits --all shows who has`);
      const concerns = (account: string) => owner === undefined || owned.some((pnode) => account.endsWith(`/${pnode}`));
      const lines =
        flags.text("format") === "csv"
          ? csv(blocks, concerns)
          : owner === undefined
            ? wholeFile(head, blocks)
            : [statementFile(head, chains, concerns)];
      const path = flags.optionalText("out");
      if (path === undefined) for (const line of lines) out.line(line);
      else await pipeline(ended(lines), createWriteStream(path));
      out.note(`head ${head.number} of ${chains.size} chains, ${blocks.length} blocks${path ? `: ${path}` : ""}`);
      return undefined;
    }),
};

function* ended(lines: Iterable<string>): Generator<string> {
  for (const line of lines) yield `${line}\n`;
}

function* csv(blocks: readonly Block[], concerns: (account: string) => boolean): Generator<string> {
  yield "chain,index,kind,ref,account,credits";
  for (const { chain, index, transfer } of blocks)
    for (const [account, credits] of Object.entries(transfer.legs))
      if (concerns(account)) yield [chain, index, transfer.kind, transfer.ref, account, credits].join(",");
}
