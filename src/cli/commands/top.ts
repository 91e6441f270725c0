// `dcnr top`: a live view of nodes, sessions and rates in the terminal.

import type { WatchFleetResponse } from "../../protocol/gen/dcnr/v1/fleet_pb.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import { cut, layOut, type Output, plain } from "../output.ts";
import { bar, bytes } from "../progress.ts";
import { waitLines } from "../waits.ts";

export const command: Command = {
  summary: "Watch nodes, sessions and rates live. Ctrl-C ends it.",
  options: { ...connectionOptions, once: { type: "boolean", summary: "show one frame and end" } },
  examples: ["dcnr top", "dcnr top --once --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const live = out.isTerminal && !flags.is("once") && !flags.is("json");
      if (live) out.raw("\x1b[?1049h\x1b[?25l");
      try {
        for await (const frame of client.fleet.watch(signal)) {
          if (flags.is("json")) out.json(frame);
          else show(out, frame, client.address, live);
          if (flags.is("once") || !live) break;
        }
      } finally {
        if (live) out.raw("\x1b[?25h\x1b[?1049l");
      }
      return undefined;
    }),
};

function show(out: Output, frame: WatchFleetResponse, address: string, live: boolean): void {
  const lines = [
    ...header(frame, address),
    "",
    ...sessions(out, frame),
    "",
    ...pnodes(out, frame),
    "",
    ...events(frame),
  ];
  if (!live) {
    for (const line of lines) out.line(line);
    return;
  }
  const height = process.stdout.rows ?? 40;
  const shown = lines.slice(0, height - 1).map((line) => `${cut(line, out.width)}\x1b[K`);
  out.raw(`\x1b[H${shown.join("\n")}\x1b[J`);
}

function header({ status }: WatchFleetResponse, address: string): string[] {
  if (!status) return [`dcnr ${address}`];
  return [
    `dcnr ${address}   ${status.pnodesOnline} PNodes online, ${status.pnodesLost} lost   ` +
      `${status.coresUsed}/${status.cores} cores   ${bytes(status.memoryUsedBytes)}/${bytes(status.memoryBytes)}`,
    ...status.problems.map((problem) => `! ${plain(problem)}`),
    ...waitLines(status.waits),
  ];
}

function sessions(out: Output, { status }: WatchFleetResponse): string[] {
  const rows = (status?.sessions ?? []).map((session) => {
    const share = Number(session.totalSteps) > 0 ? Number(session.step) / Number(session.totalSteps) : 0;
    return [
      session.id,
      session.status,
      `${bar(share, 12, out.unicode)} ${session.step}/${session.totalSteps}`,
      session.loss ? session.loss.toFixed(4) : "",
      session.samplesPerSecond ? session.samplesPerSecond.toFixed(0) : "",
    ];
  });
  const columns = [
    { title: "SESSION" },
    { title: "STATUS" },
    { title: "STEP" },
    { title: "LOSS" },
    { title: "SAMPLES/S" },
  ];
  return layOut(columns, rows, out.width, true).map(({ text }) => text);
}

function pnodes(out: Output, frame: WatchFleetResponse): string[] {
  const rows = frame.pnodes.map((pnode) => [
    pnode.name || pnode.id,
    pnode.status,
    `${bar(Math.min(1, pnode.load), 10, out.unicode)} ${Math.round(pnode.load * 100)} %`,
    bytes(pnode.memoryUsedBytes),
    `${Math.round(pnode.reliability * 100)} %`,
    frame.vnodes
      .filter((vnode) => vnode.pnode === pnode.id)
      .map((vnode) => `${vnode.id}@${vnode.step}`)
      .join(" "),
  ]);
  const columns = [
    { title: "PNODE" },
    { title: "STATUS" },
    { title: "LOAD" },
    { title: "MEMORY" },
    { title: "RELIABLE" },
    { title: "HOSTS", shrink: true },
  ];
  return layOut(columns, rows, out.width, true).map(({ text }) => text);
}

function events(frame: WatchFleetResponse): string[] {
  return frame.events.slice(-8).map((event) => plain(`${event.kind}: ${event.message}`));
}
