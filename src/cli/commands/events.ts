// `dcnr events`: what happened, newest last; `--follow` keeps listening.

import type { Event } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../joining/connection.ts";
import { type Output, plain } from "../shown/output.ts";

export const command: Command = {
  summary: "Show what happened: PNodes that joined or were lost, VNodes that moved, sessions that ended.",
  options: {
    ...connectionOptions,
    follow: { type: "boolean", short: "f", summary: "keep listening" },
    session: { type: "string", value: "ID", summary: "only this session" },
    kind: { type: "string", value: "PREFIX", summary: "only kinds that begin so: pnode, vnode.placed, session" },
  },
  examples: ["dcnr events --follow", "dcnr events --kind pnode.lost --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const filter = { session: flags.optionalText("session") ?? "", kindPrefix: flags.optionalText("kind") ?? "" };
      const events = await client.fleet.events(0n, filter);
      if (events.length === 0 && filter.session !== "") await client.sessions.get(filter.session);
      if (events.length === 0 && !flags.is("follow") && !flags.is("json")) return void out.line("No events like that.");
      if (flags.is("json") && !flags.is("follow")) return void out.json(events);
      const show = (event: Event) => (flags.is("json") ? out.json(event) : showEvent(out, event));
      for (const event of events) show(event);
      if (!flags.is("follow")) return undefined;
      for await (const frame of client.fleet.watch(signal))
        for (const event of frame.events)
          if (event.kind.startsWith(filter.kindPrefix) && (filter.session === "" || event.session === filter.session))
            show(event);
      return undefined;
    }),
};

function showEvent(out: Output, event: Event): void {
  const time = new Date(Number(event.wallMs)).toISOString().slice(11, 23);
  const tone = event.level === "error" ? "bad" : event.level === "warn" ? "warn" : "dim";
  out.line(`${out.tone("dim", time)} ${out.tone(tone, event.kind.padEnd(18))} ${plain(event.message)}`);
}
