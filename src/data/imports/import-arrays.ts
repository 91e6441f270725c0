// Imports of values at fixed places: .npy files, raw tensors and raw tokens. Inputs and labels come from two
// sources that are read in step.

import { fail } from "../../core/errors.ts";
import { elementCount, tensorBytes, viewData } from "../../core/tensor.ts";
import { buildTensors, buildTokens, type FieldSpec } from "../build.ts";
import { openReader } from "../formats/bytes.ts";
import { readNpyHeader } from "../formats/npy.ts";
import type { Manifest } from "../manifest.ts";
import { buildOptions, notEmpty, type Run } from "./import-run.ts";
import { openSource, type Source, type SourceAccess } from "./source.ts";

interface ArrayColumn {
  readonly source: Source;
  readonly field: FieldSpec;
  /** Where the values begin. */
  readonly offset: number;
  /** Undefined if only the end tells. */
  readonly samples: number | undefined;
}

/** Rows are copied in blocks of about this size. */
const blockBytes = 1 << 20;

export async function importArrays(run: Run, format: "npy" | "raw", access: SourceAccess): Promise<Manifest> {
  const { request, source, options } = run;
  const columns = [await openColumn(run, format, source, "inputs")];
  if (request.labels !== undefined)
    columns.push(await openColumn(run, format, await openSource(request.labels, access), "labels"));
  const counts = columns.map((column) => column.samples).filter((count) => count !== undefined);
  if (new Set(counts).size > 1)
    fail(
      "invalid_argument",
      `${columns.map((column) => `${column.source.name} has ${column.samples} samples`).join(", ")}: they must agree`,
    );
  const fields = columns.map((column) => column.field);
  const sampleBytes = fields.map((field) => tensorBytes(field.dtype, field.shape));
  const offsetOf = (units: number) => (columns[0] as ArrayColumn).offset + units * (sampleBytes[0] as number);
  const builder = buildTensors(fields, buildOptions(run, fields, offsetOf));
  const first = options.resume?.build.units ?? 0;
  const readers = columns.map((column, i) =>
    openReader(column.source.read(column.offset + first * (sampleBytes[i] as number))),
  );
  const rows = Math.max(1, Math.floor(blockBytes / Math.max(...sampleBytes)));
  for (;;) {
    const blocks = await Promise.all(readers.map((reader, i) => reader.take(rows * (sampleBytes[i] as number))));
    const taken = blocks.map((block, i) => block.byteLength / (sampleBytes[i] as number));
    if (taken.some((count) => count !== taken[0] || !Number.isInteger(count)))
      unequalEnds(columns, builder.samples, taken);
    if (taken[0] === 0) break;
    await builder.add(
      Object.fromEntries(fields.map((field, i) => [field.name, viewData(field.dtype, blocks[i] as Uint8Array)])),
    );
    run.positions.report(builder.samples, offsetOf(builder.samples));
  }
  if (counts[0] !== undefined && builder.samples !== counts[0])
    fail(
      "data_loss",
      `${source.name} ends after ${builder.samples} of ${counts[0]} samples: it is damaged or incomplete`,
    );
  return builder.finish();
}

function unequalEnds(columns: readonly ArrayColumn[], samples: number, taken: readonly number[]): never {
  const ends = columns.map((column, i) => `${column.source.name} ends after ${samples + (taken[i] as number)} samples`);
  fail("invalid_argument", `${ends.join(", ")}: expected whole samples, and equally many`);
}

async function openColumn(
  { request, options }: Run,
  format: "npy" | "raw",
  source: Source,
  name: "inputs" | "labels",
): Promise<ArrayColumn> {
  const scale = name === "inputs" && request.scale ? { scale: request.scale } : {};
  if (format === "raw") {
    const dtype = name === "inputs" ? request.dtype : (request.labelsDtype ?? "int32");
    const shape = name === "inputs" ? request.shape : (request.labelsShape ?? []);
    if (!dtype || !shape) fail("invalid_argument", `${source.name} is raw: say the dtype and shape of one sample`);
    const sampleBytes = tensorBytes(dtype, shape);
    const samples = source.bytes === undefined ? undefined : source.bytes / sampleBytes;
    if (samples !== undefined && !Number.isInteger(samples))
      fail(
        "invalid_argument",
        `${source.name} has ${source.bytes} bytes, which is no multiple of the ${sampleBytes} bytes of a sample`,
      );
    return { source, field: { name, dtype, shape, ...scale }, offset: 0, samples };
  }
  // Standard input can be read once only, and the header is at its start.
  if (source.bytes === undefined && options.resume)
    fail("failed_precondition", `${source.name} cannot go on in the middle: start again`);
  const [header, again] = await headerOf(source);
  const [samples, ...shape] = header.shape;
  if (elementCount(shape) === 0) fail("invalid_argument", `${source.name} is empty`);
  return { source: again, field: { name, dtype: header.dtype, shape, ...scale }, offset: header.offset, samples };
}

async function headerOf(source: Source): Promise<[Awaited<ReturnType<typeof readNpyHeader>>, Source]> {
  const reader = openReader(source.read(0));
  const header = await readNpyHeader(reader, source.name);
  if (source.bytes !== undefined) {
    await reader.close();
    return [header, source];
  }
  const rest = async function* () {
    for (let piece = await reader.take(blockBytes); piece.byteLength > 0; piece = await reader.take(blockBytes))
      yield piece;
  };
  return [header, { ...source, read: rest }];
}

export async function importTokens(run: Run): Promise<Manifest> {
  const { request, source, options } = run;
  const { vocabulary, dtype } = request;
  if (!vocabulary) fail("invalid_argument", `${source.name} holds tokens: say how many there are in the vocabulary`);
  const width = dtype === "uint8" ? 1 : dtype === "int32" ? 4 : 2;
  const offsetOf = (units: number) => units * width;
  const builder = buildTokens(vocabulary, buildOptions(run, undefined, offsetOf));
  const reader = openReader(source.read((options.resume?.build.units ?? 0) * width));
  for (let block = await reader.take(blockBytes); block.byteLength > 0; block = await reader.take(blockBytes)) {
    if (block.byteLength % width !== 0)
      fail("invalid_argument", `${source.name} ends inside a token of ${width} bytes`);
    const tokens = width === 1 ? block : width === 2 ? new Uint16Array(block.buffer) : new Int32Array(block.buffer);
    await builder.add(tokens);
    run.positions.report(builder.tokens, offsetOf(builder.tokens));
  }
  return notEmpty(builder.tokens, source) && builder.finish();
}
