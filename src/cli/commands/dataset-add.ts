// `dcnr dataset add`: a dataset from a file, an address, a bucket or standard input.

import { fail } from "../../core/errors.ts";
import type { DType } from "../../core/tensor.ts";
import { importDataset, importInline } from "../../data/import.ts";
import type { Format, ImportProgress, ImportRequest } from "../../data/import-run.ts";
import { remoteSink } from "../builtin.ts";
import type { Command, Flags } from "../command.ts";
import { connectionOptions, withClient } from "../connection.ts";
import { register, sourceAccess } from "../datasets.ts";
import { dataDirectory, directoryOption } from "../directories.ts";
import { openCheckpoints } from "../import-checkpoints.ts";
import { bytes, Progress } from "../progress.ts";

export const command: Command = {
  summary: "Add a dataset: text, JSON lines, CSV, NumPy arrays, raw tensors or tokens.",
  details:
    "SOURCE is a path, file:, https:, s3://BUCKET/KEY, or - for standard input. An interrupted import goes on where it was.",
  positionals: [{ name: "NAME" }, { name: "SOURCE", optional: true }],
  options: {
    ...connectionOptions,
    format: {
      type: "string",
      value: "FORMAT",
      summary: "text, jsonl, csv, npy, raw or tokens; else by the name's ending",
    },
    inline: { type: "string", value: "JSON", summary: 'explicit tensors: {"inputs": [[1, 2]], "labels": [0]}' },
    labels: {
      type: "string",
      value: "WHERE",
      summary: "csv: label column (name, number or none); npy, raw: source of the labels",
    },
    "inputs-type": { type: "string", value: "TYPE", summary: "float32 or int32, for jsonl and csv" },
    "labels-type": { type: "string", value: "TYPE", summary: "float32 or int32, for jsonl and csv" },
    dtype: {
      type: "string",
      value: "TYPE",
      summary: "raw: float32, uint8, ...; tokens: uint8 or int32 instead of two bytes",
    },
    shape: { type: "string", value: "SHAPE", summary: "raw: of one sample, such as 28,28" },
    "labels-dtype": { type: "string", value: "TYPE", summary: "raw: of the labels", default: "int32" },
    "labels-shape": { type: "string", value: "SHAPE", summary: "raw: of one label" },
    scale: { type: "number", value: "X", summary: "multiply inputs by it, such as 0.00392157 for bytes" },
    vocabulary: { type: "number", value: "N", summary: "tokens: how many there are" },
    "text-field": { type: "string", value: "FIELD", summary: "jsonl: where the text is", default: "text" },
    restart: { type: "boolean", summary: "do not go on with an interrupted import" },
    dir: directoryOption,
  },
  examples: [
    "dcnr dataset add books books.txt",
    "dcnr dataset add iris iris.csv --labels species",
    "dcnr dataset add digits x.npy --labels y.npy --scale 0.00392157",
    "zcat pages.jsonl.gz | dcnr dataset add pages - --format jsonl",
    'dcnr dataset add xor --inline \'{"inputs": [[0,0],[0,1],[1,0],[1,1]], "labels": [0,1,1,0]}\'',
  ],
  run: (context) =>
    withClient(context, async (client) => {
      const { flags, out } = context;
      const [name = "", source] = context.arguments;
      const blobs = remoteSink(client);
      const inline = flags.optionalText("inline");
      if ((inline === undefined) === (source === undefined))
        fail("invalid_argument", "give either a SOURCE or --inline JSON: see dcnr dataset add --help");
      if (inline !== undefined) {
        await register(
          client,
          name,
          await importInline(inline, { ...numberTypes(flags), blobs }),
          out,
          flags.is("json"),
        );
        return undefined;
      }
      const request = requestOf(source ?? "", flags);
      const directory = dataDirectory(flags.optionalText("dir"), process.env);
      const checkpoints = openCheckpoints(directory, client.address, name, request);
      const resume = flags.is("restart") ? undefined : await checkpoints.read();
      if (resume) out.note(`going on after ${bytes(resume.position.offset)} (--restart begins anew)`);
      const progress = new Progress(out, name);
      const manifest = await importDataset(request, sourceAccess(), {
        blobs,
        ...(resume ? { resume } : {}),
        onCheckpoint: (checkpoint) => checkpoints.write(checkpoint),
        onProgress: (reached) => {
          context.signal.throwIfAborted();
          show(progress, reached);
        },
      });
      await register(client, name, manifest, out, flags.is("json"));
      await checkpoints.clear();
      return undefined;
    }),
};

function show(progress: Progress, { bytes: done, bytesTotal, units }: ImportProgress): void {
  const [unit, size] = (bytesTotal ?? done) < 50e6 ? ["KB", 1e3] : ["MB", 1e6];
  const total = bytesTotal === undefined ? 0 : Math.ceil(bytesTotal / size);
  progress.update(Math.ceil(done / size), total, `${unit}, ${units.toLocaleString("en")} read`);
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
    format: chosen(flags, "format", ["text", "jsonl", "csv", "npy", "raw", "tokens"]) as Format | undefined,
    labels: flags.optionalText("labels"),
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
