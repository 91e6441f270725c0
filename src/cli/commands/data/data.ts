// `dcnr data`: runs a data pipeline. Its steps run in this process, beside the files that they read; only what is saved goes to the
// network.

import { dirname } from "node:path";
import { type Pipeline, readPipeline } from "../../../pipeline/definition.ts";
import { realWorld } from "../../../system/world.ts";
import type { Command, CommandContext } from "../../command.ts";
import { checkNewName, contentOf, datasetJson } from "../../content/datasets.ts";
import { lookAhead, type Made, make, makingOptions } from "../../content/making.ts";
import { parsePipelineFile } from "../../content/pipelines.ts";
import { readTextFile } from "../../flags/files.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Run a data pipeline: from sources over filters, copies left out, mixing and tokens to datasets.",
  details:
    "A step whose settings and inputs did not change is not run again, and a run that was interrupted, however, goes on where it was. Relative paths in the file begin where the file lies. As a job of the kind data it stands in a queue, and `dcnr data work` runs it.",
  positionals: [{ name: "FILE.yaml" }],
  options: {
    ...connectionOptions,
    check: { type: "boolean", summary: "look at everything that can be wrong, and run nothing" },
    ...makingOptions,
  },
  examples: [
    "dcnr data examples/pipelines/corpus.yaml",
    "dcnr data corpus.yaml --check",
    "dcnr data corpus.yaml --json",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const path = context.arguments[0] ?? "";
      const pipeline = readPipeline(await parsePipelineFile(await readTextFile(path, "pipeline"), path), path);
      const world = realWorld({ logFormat: "none" });
      const making = { client, context, world, pipeline, signal, folder: dirname(path) };
      if (flags.is("check")) await lookAhead(making);
      for (const name of pipeline.save.keys()) await checkNewName(client, name, out);
      if (flags.is("check")) return showPlan(pipeline, context);
      show(await make(making), context);
      return undefined;
    }),
};

function showPlan({ steps, save, write }: Pipeline, { out, flags }: CommandContext): undefined {
  const plan = steps.map(({ name, operator, inputs }) => ({ name, operation: operator.name, inputs }));
  if (flags.is("json")) out.json({ steps: plan, save: Object.fromEntries(save), write: Object.fromEntries(write) });
  else {
    out.table(
      [{ title: "STEP" }, { title: "DOES" }, { title: "READS", shrink: true }],
      plan.map(({ name, operation, inputs }) => [name, operation, inputs.join(", ")]),
    );
    for (const [target, step] of [...save, ...write]) out.line(`${step} becomes ${target}`);
  }
  return undefined;
}

function show(made: readonly Made[], { out, flags }: CommandContext): void {
  if (flags.is("json")) {
    out.json(
      made.map((one) => (one.kind === "file" ? { file: one.file, records: one.records } : datasetJson(one.dataset))),
    );
    return;
  }
  for (const one of made)
    if (one.kind === "file") out.line(`${one.path}: ${one.records.toLocaleString("en")} rows`);
    else {
      const { name, hash, bytes: size } = one.dataset;
      out.line(`dataset ${name}: ${contentOf(one.dataset)}, ${bytes(size)}, manifest ${hash.slice(0, 12)}`);
    }
}
