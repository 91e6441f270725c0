// Runs a pipeline in this process, beside the files that it reads, and brings what it saves to the network: for `dcnr data` and for
// the jobs that `dcnr data work` takes.

import { rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import type { Client } from "../../client/client.ts";
import { hasCode } from "../../core/errors.ts";
import type { World } from "../../core/world.ts";
import { lineageText } from "../../data/lineage.ts";
import { manifestText } from "../../data/manifest.ts";
import type { Pipeline } from "../../pipeline/definition.ts";
import { lineageOfStep } from "../../pipeline/lineage.ts";
import { bytesOf, countOf, type Output } from "../../pipeline/records.ts";
import { blobsOfOutput, lookAtPipeline, type MadeStep, runPipeline, type StepProgress } from "../../pipeline/run.ts";
import { forgetSaved, saveOutput } from "../../pipeline/save.ts";
import { openWorkshop, type Workshop } from "../../pipeline/workshop.ts";
import { writeRows } from "../../pipeline/write.ts";
import type { Dataset } from "../../protocol/gen/dcnr/v1/data_pb.ts";
import { openAside } from "../../system/threads/aside.ts";
import type { CommandContext, OptionSpec } from "../command.ts";
import { parseBytes } from "../flags/quantities.ts";
import { stopIfInterrupted } from "../interruption.ts";
import { dataDirectory, directoryOption } from "../machine/directories.ts";
import { holdDirectory } from "../machine/one-user.ts";
import type { Output as Printed } from "../shown/output.ts";
import { ByteProgress, bytes } from "../shown/progress.ts";
import { remoteSink } from "./builtin.ts";
import { checkBelow, networkOutside } from "./pipelines.ts";

/** More threads than this have more memory than a pipeline should. */
const threadsUsual = Math.min(4, availableParallelism());

export const makingOptions = {
  threads: { type: "number", least: 1, most: 64, value: "N", summary: "threads that work (default: up to 4)" },
  folder: { type: "string", value: "PATH", many: true, summary: "read files below this folder only; may be repeated" },
  keep: { type: "string", value: "SIZE", summary: "keep at most so much of former runs on this disk", default: "20GB" },
  fresh: { type: "boolean", summary: "forget all former runs on this machine first" },
  dir: directoryOption,
} as const satisfies Readonly<Record<string, OptionSpec>>;

export interface Making {
  readonly client: Client;
  readonly context: CommandContext;
  readonly world: World;
  readonly pipeline: Pipeline;
  /** Where relative paths begin. */
  readonly folder: string;
  /** Somebody else has written the pipeline: it reads and writes below `folder` and what --folder names, and nowhere else. */
  readonly isForeign?: boolean;
  /** Ends it without an end, if the command's own signal does not. */
  readonly signal: AbortSignal;
  /** 0 to 1, of all steps. */
  readonly onShare?: (share: number) => void;
}

export type Made =
  | { readonly kind: "file"; readonly path: string; readonly file: string; readonly records: number }
  | { readonly kind: "dataset"; readonly dataset: Dataset };

/** What can be wrong is looked for before anything runs. */
export async function lookAhead(making: Omit<Making, "onShare">) {
  const { client, world, signal, folder, context, pipeline, isForeign = false } = making;
  const folders = [...(isForeign ? [folder] : []), ...context.flags.texts("folder")];
  if (isForeign) for (const path of pipeline.write.keys()) await checkBelow(resolve(folder, path), folders);
  const outside = networkOutside({ client, world, signal, folder, folders, isForeign });
  return { outside, looked: await lookAtPipeline(pipeline, outside) };
}

export async function make(making: Making): Promise<Made[]> {
  const { context, world, pipeline, signal } = making;
  const { flags, out } = context;
  const { outside, looked } = await lookAhead(making);
  const directory = join(dataDirectory(flags.optionalText("dir"), process.env), "pipelines");
  if (flags.is("fresh")) await rm(directory, { recursive: true, force: true });
  const workshop = await openWorkshop(directory, world.clock);
  const held = await holdDirectory(directory, "dcnr data", world);
  const aside = openAside();
  try {
    const shown = new Shown(out, pipeline, making.onShare ?? (() => {}));
    const threads = flags.optionalNumber("threads") ?? threadsUsual;
    const { onProgress, onStep } = shown;
    const options = { workshop, outside, aside, threads, signal, onProgress, onStep };
    const results = await finish(making, await runPipeline(pipeline, looked, options), workshop);
    const keep = parseBytes(flags.text("keep"), "--keep");
    await workshop.sweep(keep, (result) => ("parts" in (result as Output) ? blobsOfOutput(result as Output) : []));
    return results;
  } finally {
    await aside.close();
    held.release();
  }
}

/** How the steps go, as people see it. */
class Shown {
  readonly #out: Printed;
  readonly #steps: number;
  readonly #onShare: (share: number) => void;
  #bar: { readonly title: string; readonly progress: ByteProgress } | undefined;
  #made = 0;

  constructor(out: Printed, { steps }: Pipeline, onShare: (share: number) => void) {
    this.#out = out;
    this.#steps = steps.length;
    this.#onShare = onShare;
  }

  readonly onProgress = ({ step, stage, done, total }: StepProgress): void => {
    const title = `${step} (${stage})`;
    if (this.#bar?.title !== title) this.#bar = { title, progress: new ByteProgress(this.#out, title) };
    this.#bar.progress.update(done, total > 0 ? total : undefined, "");
    this.#onShare((this.#made + (total > 0 ? Math.min(1, done / total) : 0)) / this.#steps);
  };

  readonly onStep = ({ definition, output, known }: MadeStep): void => {
    this.#made += 1;
    const count = countOf(output).toLocaleString("en");
    const how = known ? "as before" : "made";
    this.#out.status("");
    this.#out.note(
      `${definition.name}: ${count} ${output.format === "rows" ? "rows" : "runs of tokens"}, ${bytes(bytesOf(output))}, ${how}`,
    );
  };
}

async function finish(making: Making, made: ReadonlyMap<string, MadeStep>, workshop: Workshop): Promise<Made[]> {
  const { pipeline, client, context, folder, signal } = making;
  const results: Made[] = [];
  for (const [path, step] of pipeline.write) {
    const { output, definition } = made.get(step) as MadeStep;
    const file = resolve(folder, path);
    await writeRows(output, file, definition.where, workshop.blobs);
    results.push({ kind: "file", path, file, records: countOf(output) });
  }
  for (const [name, step] of pipeline.save) {
    const { output, definition } = made.get(step) as MadeStep;
    const progress = new ByteProgress(context.out, `saving ${name}`);
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
    results.push({ kind: "dataset", dataset });
  }
  return results;
}
