// `dcnr session clone`: another session that starts from a session's weights, with its settings unless flags change them.

import { create } from "@bufbuild/protobuf";
import type { SessionSettingsInit } from "../../client/client.ts";
import { fail } from "../../core/errors.ts";
import { type SessionSettings, SessionSettingsSchema } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Command, Flags } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import { follow, showSession } from "../sessions.ts";

export const command: Command = {
  summary: "Create a session that starts from another's newest weights, with its settings unless flags say otherwise.",
  details: "The optimizer begins anew. The first session stays as it is.",
  positionals: [{ name: "SESSION" }],
  options: {
    ...connectionOptions,
    dataset: { type: "string", value: "NAME", summary: "train on this dataset" },
    split: { type: "string", value: "NAME", summary: "split of the dataset" },
    steps: { type: "number", least: 1, summary: "steps to train" },
    batch: { type: "number", least: 1, summary: "samples in a step" },
    microbatches: { type: "number", least: 1, summary: "pieces of a batch" },
    rate: { type: "number", fraction: true, summary: "learning rate" },
    seed: { type: "number", most: Number.MAX_SAFE_INTEGER, summary: "decides order of samples and dropout" },
    start: { type: "boolean", summary: "start it and watch" },
  },
  examples: [
    "dcnr session clone gpt-demo-3f2a9c1b7d04 --steps 500 --rate 0.0001 --start",
    "dcnr session clone gpt-demo-3f2a9c1b7d04 --dataset letters",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const source = context.arguments[0] ?? "";
      const { settings } = await client.sessions.get(source);
      if (!settings) fail("data_loss", `session ${source} has no settings`);
      const wanted = changed(settings, flags, source);
      let session = await client.sessions.create(wanted, { start: flags.is("start") });
      if (flags.is("start")) session = (await follow(client, session.id, out, signal)) ?? session;
      if (flags.is("json")) out.json(session);
      else {
        showSession(out, session);
        if (!flags.is("start")) out.line(`Start it: dcnr session start ${session.id}`);
      }
      return session.status === "failed" ? 1 : 0;
    }),
};

function changed(settings: SessionSettings, flags: Flags, source: string): SessionSettingsInit {
  const [steps, seed, rate] = (["steps", "seed", "rate"] as const).map((name) => flags.optionalNumber(name));
  return create(SessionSettingsSchema, {
    ...settings,
    initialState: source,
    dataset: flags.optionalText("dataset") ?? settings.dataset,
    split: flags.optionalText("split") ?? settings.split,
    batch: flags.optionalNumber("batch") ?? settings.batch,
    microbatches: flags.optionalNumber("microbatches") ?? settings.microbatches,
    steps: steps === undefined ? settings.steps : BigInt(steps),
    seed: seed === undefined ? settings.seed : BigInt(seed),
    learningRate: settings.learningRate && { ...settings.learningRate, base: rate ?? settings.learningRate.base },
  });
}
