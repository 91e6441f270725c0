// `dcnr session clone`: another session that starts from a session's weights, with its settings unless flags change them.

import { create } from "@bufbuild/protobuf";
import type { SessionSettingsInit } from "../../../client/calls/sessions.ts";
import { fail } from "../../../core/errors.ts";
import { settingFields as fields } from "../../../network/settings/setting-fields.ts";
import { type SessionSettings, SessionSettingsSchema } from "../../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Command, Flags, OptionSpec } from "../../command.ts";
import { numberFlag, textFlag } from "../../flags/training.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { follow, showSession } from "../../shown/sessions.ts";

export const command: Command = {
  summary: "Create a session that starts from another's newest weights, with its settings unless flags say otherwise.",
  details: "The optimizer begins anew. The first session stays as it is.",
  positionals: [{ name: "SESSION" }],
  options: {
    ...connectionOptions,
    dataset: { type: "string", value: "NAME", summary: "train on this dataset" },
    ...asItWas({
      ...textFlag(fields.split),
      ...numberFlag(fields.steps, { summary: "steps to train" }),
      ...numberFlag(fields.batch),
      ...numberFlag(fields.microbatches, { summary: "pieces of a batch" }),
      ...numberFlag(fields.lanes),
      ...numberFlag(fields.syncEvery),
      ...numberFlag(fields.syncAfter),
      ...numberFlag(fields.rate),
      ...numberFlag(fields.seed, { summary: "decides order of samples and dropout" }),
    }),
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
        if (!flags.is("start")) out.advice(`Start it: dcnr session start ${session.id}`);
      }
      return session.status === "failed" ? 1 : 0;
    }),
};

/** Flags without a value of their own: the other session's counts. */
function asItWas(options: Readonly<Record<string, OptionSpec>>): Record<string, OptionSpec> {
  return Object.fromEntries(Object.entries(options).map(([name, { default: _usual, ...option }]) => [name, option]));
}

function changed(settings: SessionSettings, flags: Flags, source: string): SessionSettingsInit {
  const [steps, seed, rate] = (["steps", "seed", "rate"] as const).map((name) => flags.optionalNumber(name));
  return create(SessionSettingsSchema, {
    ...settings,
    initialState: source,
    dataset: flags.optionalText("dataset") ?? settings.dataset,
    split: flags.optionalText("split") ?? settings.split,
    batch: flags.optionalNumber("batch") ?? settings.batch,
    microbatches: flags.optionalNumber("microbatches") ?? settings.microbatches,
    lanes: flags.optionalNumber("lanes") ?? settings.lanes,
    syncEvery: flags.optionalNumber("sync-every") ?? settings.syncEvery,
    syncAfter: BigInt(flags.optionalNumber("sync-after") ?? settings.syncAfter),
    steps: steps === undefined ? settings.steps : BigInt(steps),
    seed: seed === undefined ? settings.seed : BigInt(seed),
    learningRate: settings.learningRate && { ...settings.learningRate, base: rate ?? settings.learningRate.base },
  });
}
