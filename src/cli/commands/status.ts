// `dcnr status`: the network at a glance, and why anything waits.

import { hasCode } from "../../core/errors.ts";
import { plural } from "../../core/words/plural.ts";
import type { GetStatusResponse } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import type { Job } from "../../protocol/gen/dcnr/v1/job_pb.ts";
import type { Command } from "../command.ts";
import { atOption, connectionOptions, joinAdvice, withClient } from "../joining/connection.ts";
import { showGossip } from "../shown/members.ts";
import { showModels } from "../shown/models.ts";
import { type Output, plain } from "../shown/output.ts";
import { bytes } from "../shown/progress.ts";
import { inOrder } from "../shown/session-order.ts";
import { showSessions } from "../shown/sessions.ts";
import { waitLines } from "../shown/waits.ts";

export const command: Command = {
  summary: "Show the network at a glance, and why anything waits.",
  details:
    "Asked at a PNode (--at), it tells what members know of each other: enough to see who is there while no orchestrator is.",
  options: { ...connectionOptions, at: atOption },
  examples: [
    "dcnr status",
    "dcnr status --orchestrator lab.example:7700 --json",
    "dcnr status --at 192.168.1.21:40123",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const status = await client.fleet.status().catch((error: unknown) => {
        if (hasCode(error, "unimplemented")) return undefined;
        throw error;
      });
      if (status === undefined) return showGossip(context, await client.members.list());
      if (context.flags.is("json")) return void context.out.json(status);
      const models = await client.models.list();
      const jobs = await client.jobs.list({ statuses: ["pending"] });
      showStatus(context.out, status, client.address, jobs);
      if (models.length > 0) {
        context.out.line();
        showModels(context.out, models);
      }
      return undefined;
    }),
};

/** More lines than this would hide the rest; `dcnr job list` has them all. */
const waitingJobsShown = 5;
/** Sessions that are over. */
const overShown = 5;

export function showStatus(out: Output, status: GetStatusResponse, address: string, waiting: readonly Job[]): void {
  out.line(
    `${plural(status.orchestrators.length, "orchestrator")}, ${plural(status.pnodesOnline, "PNode")} online` +
      (status.pnodesLost > 0 ? out.tone("warn", `, ${status.pnodesLost} lost`) : "") +
      `; ${status.coresUsed} of ${plural(status.cores, "core")}, ${bytes(status.memoryUsedBytes)} of ${bytes(status.memoryBytes)}, ${plural(status.gpus, "GPU")}`,
  );
  for (const problem of status.problems) out.line(out.tone("bad", `! ${plain(problem)}`));
  for (const line of waitLines(status.waits)) out.advice(out.tone("warn", line));
  for (const { id, spec, session, reason } of waiting.slice(0, waitingJobsShown))
    out.line(out.tone("warn", `waits: job ${plain(spec?.name || session || id)}: ${plain(reason)}`));
  if (waiting.length > waitingJobsShown)
    out.advice(`       and ${waiting.length - waitingJobsShown} more jobs: dcnr job list`);
  if (status.sessions.length > 0) {
    out.line();
    const { shown, more } = inOrder(status.sessions, overShown);
    // Why they wait was said above.
    showSessions(out, shown, false);
    if (more > 0) out.advice(`and ${more} that ${more === 1 ? "is" : "are"} over: dcnr session list`);
  } else if (status.pnodesOnline === 0) {
    out.advice(`Nobody lends a machine yet. ${joinAdvice(address)}`);
  } else {
    out.advice("No sessions. Create a network with dcnr network create FILE, then dcnr train NETWORK --dataset NAME");
  }
}
