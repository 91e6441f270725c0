// `dcnr session samples`: which samples each step of a session used, and whether each was used exactly once an epoch.

import { fail } from "../../../core/errors.ts";
import { account, samplesByStep } from "../../../data/accounting.ts";
import { parseManifest } from "../../../data/manifest.ts";
import { compileText } from "../../../network/compile.ts";
import type { Command } from "../../command.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

export const command: Command = {
  summary: "Show which samples each step used, and check that every epoch used each sample exactly once.",
  positionals: [{ name: "SESSION" }],
  options: {
    ...connectionOptions,
    list: { type: "boolean", summary: "list the samples of every step" },
    step: { type: "number", summary: "list the samples of this step alone" },
  },
  examples: ["dcnr session samples mlp-3f2a9c1b7d04", "dcnr session samples mlp-3f2a9c1b7d04 --step 17 --json"],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const session = await client.sessions.get(context.arguments[0] ?? "");
      const { settings } = session;
      if (!settings) fail("internal", "the session came without settings");
      const { manifest } = await client.datasets.get(settings.dataset);
      const { definition } = await client.networks.get(settings.network);
      const tokens = compileText(definition).inputs?.shape[0];
      const request = {
        manifest: parseManifest(manifest),
        split: settings.split,
        seed: Number(settings.seed),
        batch: settings.batch,
        steps: Number(session.step),
        ...(tokens === undefined ? {} : { context: tokens }),
      };
      const only = flags.optionalNumber("step");
      const log = [...samplesByStep(request)].filter(({ step }) => only === undefined || step === only);
      const result = account(request);
      const listing = flags.is("list") || only !== undefined;
      if (flags.is("json")) {
        out.json({ ...result, ...(listing ? { steps: log } : {}) });
      } else {
        if (listing) for (const { step, samples } of log) out.line(`${String(step).padStart(8)}  ${samples.join(" ")}`);
        for (const { epoch, sample, uses } of result.wrong)
          out.line(out.tone("bad", `epoch ${epoch}: sample ${sample} was used ${uses} times`));
        const verdict = result.wrong.length === 0 ? "none lost, none used twice" : `${result.wrong.length} mistakes`;
        out.line(
          `${request.steps} steps of ${request.batch} samples: ${result.epochs} whole epochs of ${result.samples} samples and ${result.rest} of the next; ${verdict}`,
        );
      }
      return result.wrong.length === 0 ? 0 : 1;
    }),
};
