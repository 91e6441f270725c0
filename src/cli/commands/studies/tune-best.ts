// `dcnr tune best`: the settings that did best, and where their model is.

import { fail } from "../../../core/errors.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { plain } from "../../shown/output.ts";
import { lastValue, settingText } from "../../shown/studies.ts";

export const command: Command = {
  summary: "Show the best settings of a study and the session that trained by them.",
  details:
    "The best of those trials that trained longest. Its session can be served, evaluated, exported and trained further by its id.",
  positionals: [{ name: "STUDY" }],
  options: connectionOptions,
  examples: [
    "dcnr tune best mlp-rates",
    "dcnr model export $(dcnr tune best mlp-rates --json | jq -r .session) ./best",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const study = await client.studies.get(context.arguments[0] ?? "");
      const best = study.trials.find(({ number }) => number === study.best);
      const last = best && lastValue(best);
      if (!best || !last)
        return fail(
          "failed_precondition",
          `no trial of study ${study.id} has come to a result yet: see dcnr tune show`,
        );
      const settings = Object.fromEntries(
        Object.entries(best.settings).map(([name, json]) => [name, JSON.parse(json) as unknown]),
      );
      if (flags.is("json")) {
        const { number, session } = best;
        out.json({ trial: number, [study.metric]: last.value, steps: Number(last.step), settings, session });
        return undefined;
      }
      out.line(`${out.tone("dim", "trial     ")} ${best.number} of ${study.trials.length}, after ${last.step} steps`);
      out.line(`${out.tone("dim", study.metric)} ${last.value}`);
      for (const [name, json] of Object.entries(best.settings))
        out.line(`  ${plain(name)}: ${plain(settingText(json))}`);
      out.line(`${out.tone("dim", "session   ")} ${best.session}`);
      if (study.status !== "done") out.note(`the study is ${study.status}: a better one may come`);
      else
        out.note(
          `dcnr serve ${best.session} answers with it; dcnr model export ${best.session} DIR writes it to files`,
        );
      return undefined;
    }),
};
