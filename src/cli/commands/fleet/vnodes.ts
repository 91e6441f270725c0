// `dcnr vnodes`: where each VNode is, how far it is, and why it waits.

import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "List VNodes: where each is, its step, what it does, why it was put there.",
  positionals: [{ name: "SESSION", optional: true }],
  options: connectionOptions,
  examples: ["dcnr vnodes", "dcnr vnodes mlp-3f2a9c1b7d04 --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const [session = ""] = context.arguments;
      const vnodes = await client.fleet.vnodes(session);
      const { out } = context;
      // Nothing of a session that does not exist is a mistake; nothing of one that ended is an answer.
      const ended = vnodes.length === 0 && session !== "" ? await client.sessions.get(session) : undefined;
      if (context.flags.is("json")) return void out.json(vnodes);
      if (ended) return void out.line(`Session ${session} has no VNodes on any PNode: it is ${ended.status}.`);
      if (vnodes.length === 0)
        return void out.advice("No VNodes: nothing is being trained or served. Start with dcnr train");
      const names = new Map((await client.fleet.pnodes()).map((pnode) => [pnode.id, pnode.name || pnode.id]));
      out.table(
        [
          { title: "VNODE" },
          { title: "SESSION", shrink: true },
          { title: "PNODE" },
          { title: "EPOCH", align: "right" },
          { title: "STEP", align: "right" },
          { title: "SAVED", align: "right" },
          { title: "PHASE" },
          { title: "MS", align: "right" },
          { title: "DETAIL", shrink: true },
        ],
        vnodes.map((vnode) => [
          vnode.replica > 0 ? `${vnode.id} (replica ${vnode.replica})` : vnode.id,
          vnode.session,
          names.get(vnode.pnode) ?? (vnode.pnode || "(none)"),
          String(vnode.epoch),
          String(vnode.step),
          String(vnode.durableStep),
          vnode.phase,
          vnode.stepMs ? vnode.stepMs.toFixed(1) : "",
          vnode.detail || vnode.reason,
        ]),
      );
      return undefined;
    }),
};
