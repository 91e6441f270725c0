// `dcnr session metrics`: what a session measured, as a table, CSV or JSON.

import type { Client } from "../../../client/client.ts";
import { fail } from "../../../core/errors.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import type { Output } from "../../shown/output.ts";

export const command: Command = {
  summary:
    "Show or export the metrics of a session: loss, validation, learning rate, gradient norms, samples and tokens a second.",
  positionals: [{ name: "SESSION" }],
  options: {
    ...connectionOptions,
    name: { type: "string", value: "NAME", many: true, summary: "only this metric; may be repeated" },
    csv: { type: "boolean", summary: "print CSV" },
  },
  examples: [
    "dcnr session metrics mlp-3f2a9c1b7d04 --name loss",
    "dcnr session metrics mlp-3f2a9c1b7d04 --csv > metrics.csv",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [session = ""] = context.arguments;
      const metrics = await client.sessions.metrics(session, flags.texts("name"));
      if (metrics.length === 0) await explainNone(client, session, flags.texts("name"), out);
      if (flags.is("json")) return void out.json(metrics);
      if (flags.is("csv")) {
        out.line("step,name,vnode,value");
        for (const { step, name, vnode, value } of metrics) out.line([step, name, vnode, value].join(","));
        return undefined;
      }
      if (metrics.length === 0) return undefined;
      out.table(
        [{ title: "STEP", align: "right" }, { title: "NAME" }, { title: "VALUE", align: "right" }, { title: "VNODE" }],
        metrics.map((metric) => [String(metric.step), metric.name, metric.value.toPrecision(6), metric.vnode]),
      );
      return undefined;
    }),
};

/** A metric that does not exist is a mistake; a session that has measured nothing yet is not. */
async function explainNone(client: Client, session: string, names: readonly string[], out: Output): Promise<void> {
  const known = new Set((await client.sessions.metrics(session, [])).map(({ name }) => name));
  if (known.size === 0) return out.note(`session ${session} has measured nothing yet`);
  fail(
    "not_found",
    `session ${session} has no metric ${names.join(", ")}: it has ${Array.from(known).sort().join(", ")}`,
  );
}
