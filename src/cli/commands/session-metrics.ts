// `dcnr session metrics`: what a session measured, as a table, CSV or JSON.

import type { Command } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";

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
      const metrics = await client.sessions.metrics(context.arguments[0] ?? "", flags.texts("name"));
      if (flags.is("json")) return void out.json(metrics);
      if (flags.is("csv")) {
        out.line("step,name,vnode,value");
        for (const { step, name, vnode, value } of metrics) out.line([step, name, vnode, value].join(","));
        return undefined;
      }
      out.table(
        [{ title: "STEP", align: "right" }, { title: "NAME" }, { title: "VALUE", align: "right" }, { title: "VNODE" }],
        metrics.map((metric) => [String(metric.step), metric.name, metric.value.toPrecision(6), metric.vnode]),
      );
      return undefined;
    }),
};
