// `dcnr trust`: what was checked of each machine, when and by whom, and why it is trusted or not; and the operator's word on it.

import { fail } from "../../../core/errors.ts";
import type { MachineStanding } from "../../../protocol/gen/dcnr/v1/trust_pb.ts";
import type { Command } from "../../command.ts";
import { pnodeCalled } from "../../flags/pnode-names.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { type Output, plain } from "../../shown/output.ts";

const levels = ["trusted", "known", "banned"] as const;

export const command: Command = {
  summary: "Show what was checked of each machine and why it is trusted, or say it yourself.",
  details:
    "Without a PNode it lists all. --set trusted lets a machine decide disputes; --set known takes that back, and lets one " +
    "that was quarantined begin anew; --set banned gives it no more work.",
  positionals: [{ name: "PNODE", optional: true }],
  options: {
    ...connectionOptions,
    set: { type: "string", value: "LEVEL", summary: "trusted, known or banned" },
    reason: { type: "string", value: "TEXT", summary: "why, for those who ask later" },
  },
  examples: ["dcnr trust", "dcnr trust maple", "dcnr trust maple --set trusted"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [called] = context.arguments;
      const pnode = called === undefined ? undefined : await pnodeCalled(client, called);
      const wanted = flags.optionalText("set");
      if (wanted !== undefined) {
        const level = levels.find((one) => one === wanted);
        if (level === undefined) fail("invalid_argument", `--set ${wanted}: choose trusted, known or banned`);
        if (pnode === undefined) fail("invalid_argument", "--set needs a PNode: dcnr trust PNODE --set LEVEL");
        await client.trust.set(pnode.id, level, flags.optionalText("reason") ?? "");
      }
      const standings = await client.trust.standings(pnode?.id ?? "");
      if (flags.is("json")) return void out.json(standings);
      if (pnode !== undefined) for (const standing of standings) show(out, standing);
      else list(out, standings);
      return undefined;
    }),
};

function list(out: Output, standings: readonly MachineStanding[]): void {
  out.table(
    [
      { title: "NAME" },
      { title: "STANDING" },
      { title: "CHECKED", align: "right" },
      { title: "RIGHT", align: "right" },
      { title: "RATE", align: "right" },
      { title: "AUDITS DONE", align: "right" },
      { title: "WHY", shrink: true },
    ],
    standings.map((one) => [
      one.name,
      one.standing,
      String(one.audited),
      String(one.right),
      `${Math.round(one.rate * 100)} %`,
      String(one.auditsDone),
      plain(one.reason),
    ]),
  );
}

function show(out: Output, one: MachineStanding): void {
  const lines: [string, string][] = [
    ["machine", `${one.name} (${one.pnode})`],
    ["standing", `${one.standing}: ${one.reason}`],
    [
      "checked",
      `${one.audited} intervals repeated by others; ${Math.round(one.rate * 100)} % of its next ones will be`,
    ],
    ["last", one.lastAudit ? `${new Date(Number(one.lastAuditWallMs)).toISOString()}: ${one.lastAudit}` : "(never)"],
    ["for others", `${one.auditsDone} intervals repeated`],
    ["excluded", one.excludedClasses.join(", ") || "from no numerics class"],
  ];
  for (const [name, text] of lines) out.line(`${out.tone("dim", name.padEnd(11))} ${plain(text)}`);
  for (const { wallMs, kind, story, command: repeat } of one.faults) {
    out.line(out.tone("warn", `${new Date(Number(wallMs)).toISOString()} ${kind}: ${plain(story)}`));
    if (repeat !== "") out.line(`  ${plain(repeat)}`);
  }
}
