// `dcnr data`: runs a data pipeline. Its steps run in this process, beside the files that they read; only what is saved goes to the
// network.

import { rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Client } from "../../client/client.ts";
import { hasCode } from "../../core/errors.ts";
import { lineageText } from "../../data/lineage.ts";
import { manifestText } from "../../data/manifest.ts";
import { type Pipeline, readPipeline } from "../../pipeline/definition.ts";
import { lineageOfStep } from "../../pipeline/lineage.ts";
import { bytesOf, countOf, type Output } from "../../pipeline/records.ts";
import { blobsOfOutput, lookAtPipeline, type MadeStep, runPipeline, type StepProgress } from "../../pipeline/run.ts";
import { forgetSaved, saveOutput } from "../../pipeline/save.ts";
import { openWorkshop, type Workshop } from "../../pipeline/workshop.ts";
import { writeRows } from "../../pipeline/write.ts";
import { openAside } from "../../system/threads/aside.ts";
import { realWorld } from "../../system/world.ts";
import type { Command, CommandContext } from "../command.ts";
import { remoteSink } from "../content/builtin.ts";
import { checkNewName, contentOf, datasetJson } from "../content/datasets.ts";
import { networkOutside, parsePipelineFile } from "../content/pipelines.ts";
import { readTextFile } from "../flags/files.ts";
import { parseBytes } from "../flags/quantities.ts";
import { stopIfInterrupted } from "../interruption.ts";
import { connectionOptions, withClient } from "../joining/connection.ts";
import { dataDirectory, directoryOption } from "../machine/directories.ts";
import { holdDirectory } from "../machine/one-user.ts";
import type { Output as Printed } from "../shown/output.ts";
import { ByteProgress, bytes } from "../shown/progress.ts";

/** More threads than this have more memory than a pipeline should. */
const threadsUsual = Math.min(4, availableParallelism());

export const command: Command = {
  summary: "Run a data pipeline: from sources over filters, copies left out, mixing and tokens to datasets.",
  details:
    "A step whose settings and inputs did not change is not run again, and a run that was interrupted, however, goes on where it was. Relative paths in the file begin where the file lies.",
  positionals: [{ name: "FILE.yaml" }],
  options: {
    ...connectionOptions,
    check: { type: "boolean", summary: "look at everything that can be wrong, and run nothing" },
    threads: { type: "number", least: 1, most: 64, value: "N", summary: "threads that work (default: up to 4)" },
    folder: {
      type: "string",
      value: "PATH",
      many: true,
      summary: "read files below this folder only; may be repeated",
    },
    keep: {
      type: "string",
      value: "SIZE",
      summary: "keep at most so much of former runs on this disk",
      default: "20GB",
    },
    fresh: { type: "boolean", summary: "forget all former runs on this machine first" },
    dir: directoryOption,
  },
  examples: [
    "dcnr data examples/pipelines/books.yaml",
    "dcnr data corpus.yaml --check",
    "dcnr data corpus.yaml --json",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out, signal } = context;
      const path = context.arguments[0] ?? "";
      const pipeline = readPipeline(await parsePipelineFile(await readTextFile(path, "pipeline"), path), path);
      const world = realWorld({ logFormat: "none" });
      const outside = networkOutside({ client, world, signal, folder: dirname(path), folders: flags.texts("folder") });
      const looked = await lookAtPipeline(pipeline, outside);
      for (const name of pipeline.save.keys()) await checkNewName(client, name, out);
      if (flags.is("check")) return showPlan(pipeline, context);
      const directory = join(dataDirectory(flags.optionalText("dir"), process.env), "pipelines");
      if (flags.is("fresh")) await rm(directory, { recursive: true, force: true });
      const workshop = await openWorkshop(directory, world.clock);
      const held = await holdDirectory(directory, "dcnr data", world);
      const aside = openAside();
      try {
        const shown = new Shown(out);
        const threads = flags.optionalNumber("threads") ?? threadsUsual;
        const { onProgress, onStep } = shown;
        const made = await runPipeline(pipeline, looked, {
          workshop,
          outside,
          aside,
          threads,
          signal,
          onProgress,
          onStep,
        });
        await finish({ pipeline, made, client, workshop, context, folder: dirname(path) });
        const keep = parseBytes(flags.text("keep"), "--keep");
        await workshop.sweep(keep, (result) => ("parts" in (result as Output) ? blobsOfOutput(result as Output) : []));
      } finally {
        await aside.close();
        held.release();
      }
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

/** How the steps go, as people see it. */
class Shown {
  readonly #out: Printed;
  #bar: { readonly title: string; readonly progress: ByteProgress } | undefined;

  constructor(out: Printed) {
    this.#out = out;
  }

  readonly onProgress = ({ step, stage, done, total }: StepProgress): void => {
    const title = `${step} (${stage})`;
    if (this.#bar?.title !== title) this.#bar = { title, progress: new ByteProgress(this.#out, title) };
    this.#bar.progress.update(done, total > 0 ? total : undefined, "");
  };

  readonly onStep = ({ definition, output, known }: MadeStep): void => {
    const count = countOf(output).toLocaleString("en");
    const how = known ? "as before" : "made";
    this.#out.status("");
    this.#out.note(
      `${definition.name}: ${count} ${output.format === "rows" ? "rows" : "runs of tokens"}, ${bytes(bytesOf(output))}, ${how}`,
    );
  };
}

interface Finishing {
  readonly pipeline: Pipeline;
  readonly made: ReadonlyMap<string, MadeStep>;
  readonly client: Client;
  readonly workshop: Workshop;
  readonly context: CommandContext;
  readonly folder: string;
}

async function finish({ pipeline, made, client, workshop, context, folder }: Finishing): Promise<void> {
  const { out, flags, signal } = context;
  const results: unknown[] = [];
  for (const [path, step] of pipeline.write) {
    const { output, definition } = made.get(step) as MadeStep;
    const file = resolve(folder, path);
    await writeRows(output, file, definition.where, workshop.blobs);
    if (flags.is("json")) results.push({ file, records: countOf(output) });
    else out.line(`${path}: ${countOf(output).toLocaleString("en")} rows`);
  }
  for (const [name, step] of pipeline.save) {
    const { output, definition } = made.get(step) as MadeStep;
    const progress = new ByteProgress(out, `saving ${name}`);
    const onProgress = (done: number, total: number) => {
      stopIfInterrupted(signal, "the same command goes on where it was");
      progress.update(done, total, "");
    };
    const lineage = lineageText(lineageOfStep(step, made));
    const attempt = async () => {
      const options = { workshop, blobs: remoteSink(client), target: client.address, onProgress };
      const manifest = await saveOutput(output, definition.where, options);
      return client.datasets.create(name, manifestText(manifest), lineage);
    };
    const dataset = await attempt().catch(async (thrown: unknown) => {
      if (!hasCode(thrown, "failed_precondition")) throw thrown;
      // Blobs that were uploaded long ago may be gone with a dataset that was removed.
      await forgetSaved(output, client.address, workshop);
      return attempt();
    });
    if (flags.is("json")) results.push(datasetJson(dataset));
    else
      out.line(
        `dataset ${name}: ${contentOf(dataset)}, ${bytes(dataset.bytes)}, manifest ${dataset.hash.slice(0, 12)}`,
      );
  }
  if (flags.is("json")) out.json(results);
}
