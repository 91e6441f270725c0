// `dcnr credits`: what one owner has earned, or everybody.

import type { Balance } from "../../../protocol/gen/dcnr/v1/ledger_pb.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { directoryOption } from "../../machine/directories.ts";
import { byOwner, machineKey, type OwnerBalance } from "../../shown/credits.ts";
import type { Output } from "../../shown/output.ts";

export const command: Command = {
  summary: "Show credits for work that is final: those of an owner, of this machine, or of everybody (--all).",
  details:
    "One credit is a million floating-point operations by the network's static cost model. Pay is in escrow at first and becomes available 40 checkpoints later, or when the session ends.",
  positionals: [{ name: "OWNER", optional: true }],
  options: {
    ...connectionOptions,
    all: { type: "boolean", summary: "the leaderboard: all owners, and what sessions have spent" },
    dir: directoryOption,
  },
  examples: ["dcnr credits", "dcnr credits ada", "dcnr credits --all", "dcnr credits --all --json | jq '.balances[0]'"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [named] = context.arguments;
      const own = named === undefined && !flags.is("all") ? await machineKey(flags.optionalText("dir")) : undefined;
      const owner = named ?? (own ? own.id : "");
      const balances = await client.credits.balances(owner);
      if (owner !== "") {
        if (flags.is("json")) return void out.json(balances);
        if (balances.length === 0)
          return void out.line(`${named ?? "This machine"} has no credits yet: they come with work that is final.`);
        return void machines(out, balances);
      }
      const { spending, budgets } = await client.credits.spending();
      if (flags.is("json")) return void out.json({ balances: byOwner(balances), spending, budgets });
      if (balances.length === 0)
        return void out.line("Nobody has earned credits yet: they come with work that is final.");
      leaderboard(out, byOwner(balances));
      if (spending.length > 0) {
        out.line();
        out.table(
          [
            { title: "SESSION" },
            { title: "OF" },
            { title: "SPENT", align: "right" },
            { title: "BUDGET", align: "right" },
          ],
          spending.map((one) => [
            one.session,
            one.owner || "-",
            String(one.spent),
            one.budget ? String(one.budget) : "-",
          ]),
        );
      }
      for (const one of budgets)
        out.line(
          `Sessions of ${one.owner || "callers without a key"} have spent ${one.spent} of ${one.budget} credits.`,
        );
      return undefined;
    }),
};

const amounts = ["EARNED", "AVAILABLE", "ESCROW", "BOND", "PAID OUT"].map((title) => ({
  title,
  align: "right" as const,
}));

function cells(one: Omit<OwnerBalance, "owner" | "machines">): string[] {
  return [one.earned, one.available, one.escrow, one.bond, one.outside].map(String);
}

function machines(out: Output, balances: readonly Balance[]): void {
  out.table(
    [{ title: "MACHINE" }, ...amounts, { title: "ID", shrink: true }],
    balances.map((one) => [one.name || "-", ...cells(one), one.pnode]),
  );
}

function leaderboard(out: Output, owners: readonly OwnerBalance[]): void {
  out.table(
    [
      { title: "", align: "right" },
      { title: "OWNER", shrink: true },
      { title: "MACHINES", align: "right" },
      ...amounts,
    ],
    owners.map((one, index) => [String(index + 1), one.owner, String(one.machines), ...cells(one)]),
  );
}
