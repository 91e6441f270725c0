// `dcnr status`: the network at a glance, and why anything waits.

import type { GetStatusResponse } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import type { Output } from "../output.ts";
import { bytes, duration } from "../progress.ts";
import { showSessions } from "../sessions.ts";

export const command: Command = {
  summary: "Show the network at a glance, and why anything waits.",
  options: connectionOptions,
  examples: ["dcnr status", "dcnr status --orchestrator lab.example:7700 --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const status = await client.fleet.status();
      if (context.flags.is("json")) context.out.json(status);
      else showStatus(context.out, status, client.address);
      return undefined;
    }),
};

export function showStatus(out: Output, status: GetStatusResponse, address: string): void {
  out.line(
    `${status.orchestrators.length} orchestrator(s), ${status.pnodesOnline} PNode(s) online` +
      (status.pnodesLost > 0 ? out.tone("warn", `, ${status.pnodesLost} lost`) : "") +
      `; ${status.coresUsed} of ${status.cores} cores, ${bytes(status.memoryUsedBytes)} of ${bytes(status.memoryBytes)}, ${status.gpus} GPU(s)`,
  );
  for (const problem of status.problems) out.line(out.tone("bad", `! ${problem}`));
  for (const wait of status.waits) {
    const who = wait.vnode ? `VNode ${wait.vnode}${wait.pnode ? ` on PNode ${wait.pnode}` : ""}: ` : "";
    const until = wait.untilSeconds > 0 ? `, until ${duration(wait.untilSeconds)}` : "";
    out.line(out.tone("warn", `waits: ${who}${wait.reason} (for ${duration(wait.sinceSeconds)}${until})`));
  }
  if (status.sessions.length > 0) {
    out.line();
    showSessions(out, status.sessions);
  } else if (status.pnodesOnline === 0) {
    out.line(`Nobody lends a machine yet. On any machine: dcnr join ${address}`);
  } else {
    out.line("No sessions. Create a network with dcnr network create FILE, then dcnr train NETWORK --dataset NAME");
  }
}
