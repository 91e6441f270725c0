// Members of the network, as people see them.

import { shortKeyId } from "../../core/keys.ts";
import { duration } from "../../core/words/duration.ts";
import { plural } from "../../core/words/plural.ts";
import {
  type ListMembersResponse,
  MemberRole,
  MemberStanding,
  type MemberView,
} from "../../protocol/gen/dcnr/v1/gossip_pb.ts";
import type { CommandContext } from "../command.ts";
import { type Output, plain } from "./output.ts";
import { bytes } from "./progress.ts";

const roles: Readonly<Record<number, string>> = {
  [MemberRole.PNODE]: "pnode",
  [MemberRole.RELAY]: "relay",
  [MemberRole.ORCHESTRATOR]: "orchestrator",
};
const standings: Readonly<Record<number, string>> = {
  [MemberStanding.ALIVE]: "alive",
  [MemberStanding.SUSPECT]: "suspect",
  [MemberStanding.DEAD]: "dead",
  [MemberStanding.LEFT]: "left",
};

export function showMembers(out: Output, members: readonly MemberView[]): void {
  out.table(
    [
      { title: "NAME" },
      { title: "STANDING" },
      { title: "SINCE", align: "right" },
      { title: "ROLE" },
      { title: "CORES", align: "right" },
      { title: "MEMORY", align: "right" },
      { title: "LOAD", align: "right" },
      { title: "ROUTES", shrink: true },
      { title: "ID", shrink: true },
    ],
    members.map(row),
  );
}

function row({ record, standing, standingMs }: MemberView): string[] {
  const isMachine = !record?.roles.includes(MemberRole.ORCHESTRATOR);
  return [
    plain(record?.name ?? ""),
    standings[standing] ?? "?",
    standingMs === 0n ? "" : duration(Number(standingMs) / 1_000),
    (record?.roles ?? []).map((role) => roles[role] ?? "?").join(" "),
    isMachine ? String(record?.cores ?? 0) : "",
    isMachine ? bytes(record?.memoryBytes ?? 0n) : "",
    isMachine ? `${Math.round(12.5 * (record?.loadEighths ?? 0))} %` : "",
    (record?.routes ?? []).map(plain).join(" ") || "none: nobody can call it",
    plain(record?.id ?? ""),
  ];
}

/** The network at a glance as a PNode knows it. */
export function showGossip(
  { out, flags }: CommandContext,
  { members, answer }: { members: readonly MemberView[]; answer: Omit<ListMembersResponse, "members"> },
): undefined {
  if (flags.is("json")) return void out.json({ ...answer, members });
  const here = members.filter(
    ({ standing }) => standing === MemberStanding.ALIVE || standing === MemberStanding.SUSPECT,
  );
  const count = (role: MemberRole) => here.filter(({ record }) => record?.roles.includes(role)).length;
  out.line(
    `PNode ${plain(answer.from)} knows by gossip: ${plural(count(MemberRole.ORCHESTRATOR), "orchestrator")}, ${plural(count(MemberRole.PNODE), "PNode")}, ` +
      `${answer.dead} gone; network ${shortKeyId(answer.networkKey)}`,
  );
  if (!answer.hasOrchestrator)
    out.line(
      out.tone("warn", "No orchestrator is there: sessions and progress cannot be shown, and nobody new can join."),
    );
  showMembers(out, members);
  return undefined;
}
