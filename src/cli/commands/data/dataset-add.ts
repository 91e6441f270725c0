// `dcnr dataset add`: a dataset from a file, an address, a bucket or standard input.

import { existsSync } from "node:fs";
import type { Client } from "../../../client/client.ts";
import { fail, hasCode } from "../../../core/errors.ts";
import type { DType } from "../../../core/tensor.ts";
import { shardBytesDefault } from "../../../data/build.ts";
import { importDataset } from "../../../data/imports/import.ts";
import { importInline } from "../../../data/imports/import-rows.ts";
import { type Format, formats, type ImportRequest } from "../../../data/imports/import-run.ts";
import { lineageOf } from "../../../data/lineage.ts";
import { type Manifest, shardBytesMax } from "../../../data/manifest.ts";
import type { Command, CommandContext, Flags } from "../../command.ts";
import { buildBuiltin, builtinNames, remoteSink } from "../../content/builtin.ts";
import { checkNewName, register, sourceAccess } from "../../content/datasets.ts";
import { openCheckpoints } from "../../content/import-checkpoints.ts";
import { parseBytes } from "../../flags/quantities.ts";
import { stopIfInterrupted } from "../../interruption.ts";
import { connectionOptions, withClient } from "../../joining/connection.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { ByteProgress, bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Add a dataset: text, JSON lines, CSV, Parquet, a folder of images, NumPy arrays, raw tensors or tokens.",
  details: `SOURCE is a path, a folder of PNG and JPEG images (the folders in it are the classes), file:, https:, s3://BUCKET/KEY, - for standard input, tensors as JSON, or one that a clone has (${builtinNames.join(", ")}). An interrupted import goes on where it was.`,
  positionals: [{ name: "NAME" }, { name: "SOURCE", optional: true }],
  options: {
    ...connectionOptions,
    format: {
      type: "string",
      value: "FORMAT",
      summary: "text, jsonl, csv, parquet, npy, raw, tokens or images; else by the name's ending",
    },
    inline: { type: "string", value: "JSON", summary: 'explicit tensors: {"inputs": [[1, 2]], "labels": [0]}' },
    labels: {
      type: "string",
      value: "WHERE",
      summary: "csv, parquet: label column (name, number or none); npy, raw: source of the labels; images: none",
    },
    columns: {
      type: "string",
      value: "A,B,...",
      summary: "parquet: columns of the inputs (default: all but the label)",
    },
    "inputs-type": { type: "string", value: "TYPE", summary: "float32 or int32, for jsonl, csv and parquet" },
    "labels-type": { type: "string", value: "TYPE", summary: "float32 or int32, for jsonl, csv and parquet" },
    dtype: {
      type: "string",
      value: "TYPE",
      summary: "raw: float32, uint8, ...; tokens: uint8 or int32 instead of two bytes",
    },
    shape: {
      type: "string",
      value: "SHAPE",
      summary: "raw: of one sample, such as 28,28; images: scale all to it, such as 3,64,64",
    },
    "labels-dtype": { type: "string", value: "TYPE", summary: "raw: of the labels", default: "int32" },
    "labels-shape": { type: "string", value: "SHAPE", summary: "raw: of one label" },
    scale: {
      type: "number",
      least: -1e12,
      most: 1e12,
      fraction: true,
      value: "X",
      summary: "multiply inputs by it, such as 0.00392157 for bytes",
    },
    vocabulary: { type: "number", least: 1, value: "N", summary: "tokens: how many there are" },
    "text-field": { type: "string", value: "FIELD", summary: "jsonl, parquet: where the text is", default: "text" },
    "shard-size": { type: "string", value: "SIZE", summary: "of one shard, such as 16MB (default 8MiB)" },
    folder: {
      type: "string",
      value: "PATH",
      many: true,
      summary: "read files below this folder only; may be repeated",
    },
    restart: { type: "boolean", summary: "do not go on with an interrupted import" },
    dir: directoryOption,
  },
  examples: [
    "dcnr dataset add books books.txt",
    "dcnr dataset add iris iris.csv --labels species",
    "dcnr dataset add pets photos/ --shape 3,64,64",
    "dcnr dataset add flowers iris.parquet --labels species --columns sepal_length,petal_length",
    "dcnr dataset add digits x.npy --labels y.npy --scale 0.00392157",
    "zcat pages.jsonl.gz | dcnr dataset add pages - --format jsonl",
    'dcnr dataset add xor \'{"inputs": [[0,0],[0,1],[1,0],[1,1]], "labels": [0,1,1,0]}\'',
    "dcnr dataset add digits mnist",
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [name = "", source] = context.arguments;
      await checkNewName(client, name, out);
      const given = flags.optionalText("inline");
      if ((given === undefined) === (source === undefined))
        fail("invalid_argument", "give either a SOURCE or --inline JSON: see dcnr dataset add --help");
      const inline = given ?? (source?.trimStart().startsWith("{") ? source : undefined);
      const { manifest, forget } =
        inline === undefined
          ? await importSource(context, client, name, source ?? "")
          : { manifest: await importInline(inline, { ...numberTypes(flags), blobs: remoteSink(client) }) };
      try {
        const settings = { source: inline === undefined ? (source ?? "") : "written down", ...givenFormat(flags) };
        await register(client, name, manifest, out, flags.is("json"), lineageOf("import", settings, manifest));
      } catch (error) {
        // Shards of an import that lay for long may be gone: the next try must send them again.
        if (hasCode(error, "failed_precondition")) await forget?.();
        throw error;
      }
      await forget?.();
      return undefined;
    }),
};

interface Imported {
  readonly manifest: Manifest;
  /** Where the import would go on is known until this is called. */
  readonly forget?: () => Promise<void>;
}

async function importSource(
  { flags, out, signal }: CommandContext,
  client: Client,
  name: string,
  source: string,
): Promise<Imported> {
  // A file of that name comes first: nobody should get other data than they pointed at.
  if (builtinNames.includes(source) && !existsSync(source)) {
    out.status(`preparing ${source} ...`);
    return { manifest: (await buildBuiltin(client, source)) as Manifest };
  }
  const request = requestOf(source, flags);
  const shardBytes = shardBytesOf(flags);
  const directory = dataDirectory(flags.optionalText("dir"), process.env);
  const checkpoints = openCheckpoints(directory, client.address, name, request, shardBytes);
  const stored = flags.is("restart") ? undefined : await checkpoints.read();
  // Without a tag (standard input) nobody can tell whether it is the same data again.
  const resume = stored?.tag ? stored : undefined;
  if (resume) out.note(`going on after ${bytes(resume.position.offset)} (--restart begins anew)`);
  const progress = new ByteProgress(out, name);
  const folders = flags.texts("folder");
  const access = { ...sourceAccess(), ...(folders.length > 0 ? { folders } : {}) };
  const manifest = await importDataset(request, access, {
    blobs: remoteSink(client),
    shardBytes,
    ...(resume ? { resume } : {}),
    onCheckpoint: (checkpoint) => checkpoints.write(checkpoint),
    onProgress: (reached) => {
      stopIfInterrupted(signal, "the same command goes on where it was");
      progress.update(reached.bytes, reached.bytesTotal, `${reached.units.toLocaleString("en")} read`);
    },
  });
  return { manifest, forget: () => checkpoints.clear() };
}

function givenFormat(flags: Flags): { format?: string; labels?: string } {
  const [format, labels] = [flags.optionalText("format"), flags.optionalText("labels")];
  return { ...(format && { format }), ...(labels && { labels }) };
}

function shardBytesOf(flags: Flags): number {
  const size = flags.has("shard-size") ? parseBytes(flags.text("shard-size"), "--shard-size") : shardBytesDefault;
  if (!Number.isSafeInteger(size) || size < 1 << 10 || size > shardBytesMax)
    fail("invalid_argument", `--shard-size is from 1 KB to ${bytes(shardBytesMax)}`);
  return size;
}

function numberTypes(flags: Flags): Pick<ImportRequest, "inputsType" | "labelsType"> {
  const read = (flag: string) => {
    const type = flags.optionalText(flag);
    if (type === undefined || type === "float32" || type === "int32") return type;
    return fail("invalid_argument", `--${flag} is float32 or int32, not ${type}`);
  };
  return { inputsType: read("inputs-type"), labelsType: read("labels-type") };
}

function requestOf(source: string, flags: Flags): ImportRequest {
  const shape = (flag: string) => {
    const text = flags.optionalText(flag);
    if (text === undefined) return undefined;
    const sizes = text
      .split(/[,x\s]+/)
      .filter((part) => part !== "")
      .map(Number);
    if (sizes.some((size) => !Number.isInteger(size) || size < 1))
      fail("invalid_argument", `--${flag} is a shape such as 28,28, not ${text}`);
    return sizes;
  };
  return {
    source,
    ...numberTypes(flags),
    format: chosen(flags, "format", formats) as Format | undefined,
    labels: flags.optionalText("labels"),
    columns: flags.optionalText("columns")?.split(","),
    dtype: chosen(flags, "dtype", dtypes) as DType | undefined,
    shape: shape("shape"),
    labelsDtype: chosen(flags, "labels-dtype", dtypes) as DType | undefined,
    labelsShape: shape("labels-shape"),
    scale: flags.optionalNumber("scale"),
    vocabulary: flags.optionalNumber("vocabulary"),
    textField: flags.optionalText("text-field"),
  };
}

const dtypes = ["float32", "float64", "int32", "int64", "uint8", "bool", "float16", "bfloat16"];

function chosen(flags: Flags, flag: string, choices: readonly string[]): string | undefined {
  const value = flags.optionalText(flag);
  if (value !== undefined && !choices.includes(value))
    fail("invalid_argument", `--${flag} is one of ${choices.join(", ")}, not ${value}`);
  return value;
}
