// `dcnr validate`: loss and accuracy of a model or session on a split, computed by the network's own VNodes: a
// session of one step that starts from the weights, learns nothing worth mentioning, and is deleted afterwards.

import type { Client } from "../../../client/client.ts";
import { fail, hasCode } from "../../../core/errors.ts";
import { duration } from "../../../core/words/duration.ts";
import type { Manifest } from "../../../data/manifest.ts";
import { ruleOf, viewSplit } from "../../../data/order.ts";
import { compileText } from "../../../network/compile.ts";
import { settingFields } from "../../../network/settings/setting-fields.ts";
import type { Session, SessionSettings } from "../../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Command, CommandContext } from "../../command.ts";
import { ensureDataset } from "../../content/builtin.ts";
import { remoteDataset } from "../../content/datasets.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";

/** Too small to change a float32 weight that matters. */
const rate = settingFields.rate.least;
const reportAttempts = 10;
const reportWaitMs = 500;

export const command: Command = {
  summary: "Loss and accuracy of a session's newest state, or of a model, on a split of a dataset.",
  positionals: [{ name: "SOURCE" }],
  options: {
    ...connectionOptions,
    dataset: { type: "string", value: "NAME", summary: "dataset to validate on (default: the session's own)" },
    split: { type: "string", value: "NAME", summary: "split of the dataset", default: "validation" },
    samples: { type: "number", least: 1, summary: "samples to use at most", default: 1024 },
    batch: { type: "number", least: 1, summary: "samples that go through at once", default: 8 },
    numerics: { type: "string", value: "NAME", summary: "native or portable (default: as it was trained)" },
  },
  examples: [
    "dcnr validate gpt-demo-3f2a9c1b7d04",
    "dcnr validate gpt2 --dataset books-tokens --split validation --samples 200 --json",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const source = context.arguments[0] ?? "";
      const { definition, network, step } = await client.models.describe(source);
      const settings = await settingsOf(client, source);
      const dataset =
        flags.optionalText("dataset") ??
        settings?.dataset ??
        fail("invalid_argument", `${source} is a model: say --dataset NAME to validate it on`);
      await ensureDataset(client, dataset, out);
      const split = flags.text("split");
      const { manifest } = await remoteDataset(client, dataset);
      const samples = Math.min(flags.number("samples"), samplesIn(manifest, split, definition));
      const batch = Math.max(1, Math.min(flags.number("batch"), samples));
      const rounds = Math.min(settingFields.validationMicrobatches.most, Math.floor(samples / batch));
      const session = await client.sessions.create({
        network: await networkOf(client, definition, [network, source]),
        dataset,
        split,
        validationSplit: split,
        initialState: source,
        steps: 1n,
        batch,
        microbatches: 1,
        validateEvery: 1,
        validationMicrobatches: rounds,
        numerics: flags.optionalText("numerics") ?? settings?.numerics ?? "",
        learningRate: { schedule: "constant", base: rate },
      });
      try {
        const { loss, accuracy } = await result(client, session.id, context);
        const found = { source, step, dataset, split, samples: rounds * batch, loss, accuracy };
        if (flags.is("json")) out.json(found);
        else
          out.line(
            `${source} on ${rounds * batch} samples of ${dataset}, split ${split}: loss ${loss.toFixed(6)}${accuracy === undefined ? "" : `, accuracy ${(accuracy * 100).toFixed(2)} %`}`,
          );
      } finally {
        await client.sessions.delete(session.id);
      }
      return undefined;
    }),
};

/** Undefined for a model. */
async function settingsOf(client: Client, source: string): Promise<SessionSettings | undefined> {
  try {
    return (await client.sessions.get(source)).settings;
  } catch (error) {
    if (hasCode(error, "not_found")) return undefined;
    throw error;
  }
}

function samplesIn(manifest: Manifest, split: string, definition: string): number {
  const rule = ruleOf(manifest, split);
  if (rule.kind === "list") return rule.count;
  const context = compileText(definition).inputs?.shape[0];
  return viewSplit({ manifest, split, ...(context === undefined ? {} : { context }) }).samples;
}

/** The network under which sessions of this definition can be created. */
async function networkOf(client: Client, definition: string, names: readonly string[]): Promise<string> {
  for (const name of names) {
    const found = await client.networks.get(name).catch((error: unknown) => {
      if (hasCode(error, "not_found") || hasCode(error, "invalid_argument")) return undefined;
      throw error;
    });
    if (found?.definition === definition) return name;
  }
  return fail(
    "failed_precondition",
    `the network ${names[0]} was deleted or changed since: create it again to validate`,
  );
}

async function result(
  client: Client,
  id: string,
  { out, signal }: Pick<CommandContext, "out" | "signal">,
): Promise<{ loss: number; accuracy: number | undefined }> {
  const startedMs = performance.now();
  let last: Session | undefined;
  for await (const { session } of client.sessions.watch(id, signal)) {
    last = session ?? last;
    const wait = last?.status === "waiting" ? `: ${last.reason}` : "";
    out.status(`validating, ${duration((performance.now() - startedMs) / 1000)}${wait}`);
  }
  out.status("");
  if (signal.aborted) fail("cancelled", "the validation was interrupted");
  if (last?.status !== "done") fail("internal", `the validation ended as ${last?.status}: ${last?.reason}`);
  return measured(client, id);
}

/** A PNode that is slow to report may do so a moment after the end. */
async function measured(client: Client, id: string): Promise<{ loss: number; accuracy: number | undefined }> {
  for (let attempt = 0; attempt < reportAttempts; attempt++) {
    if (attempt > 0) await new Promise((resolve) => setTimeout(resolve, reportWaitMs));
    const metrics = await client.sessions.metrics(id, ["validation_loss", "validation_accuracy"]);
    const of = (name: string) => metrics.find((metric) => metric.name === name)?.value;
    const loss = of("validation_loss");
    if (loss !== undefined) return { loss, accuracy: of("validation_accuracy") };
  }
  return fail("unavailable", "no PNode reported the result of the validation: try again");
}
