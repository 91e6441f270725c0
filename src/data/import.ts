// From a source to a dataset: picks the format and streams records into a builder. Text, JSON lines and CSV are
// read here; values in fixed places in import-arrays.ts.

import { fail, messageOf } from "../core/errors.ts";
import { buildTensors, buildText, type FieldSpec } from "./build.ts";
import { readLayout, rowOfCells, splitCells } from "./formats/csv.ts";
import { type Line, type Position, readLines, textOfLine } from "./formats/lines.ts";
import { fieldsOfRow, type NumberType, type Row, valuesOfRow } from "./formats/rows.ts";
import { readPieces } from "./formats/text.ts";
import { importArrays, importTokens } from "./import-arrays.ts";
import {
  buildOptions,
  type Format,
  type ImportOptions,
  type ImportRequest,
  notEmpty,
  openPositions,
  type Run,
} from "./import-run.ts";
import type { Manifest } from "./manifest.ts";
import { openSource, type SourceAccess } from "./source.ts";

export async function importDataset(
  request: ImportRequest,
  access: SourceAccess,
  options: ImportOptions,
): Promise<Manifest> {
  const format = request.format ?? formatOf(request.source);
  const source = await openSource(request.source, access);
  if (options.resume && options.resume.tag !== source.tag)
    fail("failed_precondition", `${source.name} has changed since the import began: start it again`);
  const run: Run = { request, source, options, positions: openPositions(source, options) };
  switch (format) {
    case "text":
      return importText(run);
    case "jsonl":
      return importJsonLines(run);
    case "csv":
      return importCsv(run);
    case "npy":
    case "raw":
      return importArrays(run, format, access);
    case "tokens":
      return importTokens(run);
  }
}

const endings: Readonly<Record<string, Format>> = {
  txt: "text",
  text: "text",
  md: "text",
  jsonl: "jsonl",
  ndjson: "jsonl",
  csv: "csv",
  npy: "npy",
  bin: "raw",
  raw: "raw",
};

export function formatOf(source: string): Format {
  const ending = /\.([a-z]+)(?:[?#].*)?$/i.exec(source)?.[1]?.toLowerCase();
  const format = ending === undefined ? undefined : endings[ending];
  return (
    format ??
    fail(
      "invalid_argument",
      `the format of ${source} cannot be told from its name: say --format text, jsonl, csv, npy, raw or tokens`,
    )
  );
}

async function importText(run: Run): Promise<Manifest> {
  const { source, positions } = run;
  const builder = buildText(true, buildOptions(run));
  for await (const { bytes, next } of readPieces(source.read(positions.start.offset), positions.start, source.name)) {
    positions.mark(builder.documents + 1, next);
    await builder.add(bytes);
  }
  return notEmpty(builder.documents, source) && builder.finish();
}

function linesOf({ source, positions }: Run): AsyncIterable<Line> {
  return readLines(source.read(positions.start.offset), positions.start, source.name);
}

function isBlank({ bytes }: Line): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09);
}

async function importJsonLines(run: Run): Promise<Manifest> {
  const { request, source, options, positions } = run;
  const textField = request.textField ?? "text";
  let text: ReturnType<typeof buildText> | undefined;
  let tensors: ReturnType<typeof rowBuilder> | undefined;
  if (options.resume) {
    if (options.resume.fields) tensors = rowBuilder(run, options.resume.fields);
    else text = buildText(false, buildOptions(run));
  }
  for await (const line of linesOf(run)) {
    if (isBlank(line)) continue;
    const where = `line ${line.number} of ${source.name}`;
    const row = objectOfLine(line, where, source.name);
    if (!text && !tensors) {
      if (typeof row[textField] === "string") text = buildText(false, buildOptions(run));
      else tensors = rowBuilder(run, fieldsOfRow(numericRow(row, where, textField), typesOf(request), where));
    }
    if (text) {
      const document = row[textField];
      if (typeof document !== "string") fail("invalid_argument", `${where} has no text in its field "${textField}"`);
      positions.mark(text.documents + 1, line.next);
      await text.add(new TextEncoder().encode(document.toWellFormed()));
    } else if (tensors) await tensors.add(row, line.next, where);
  }
  return (
    (await text?.finish()) ??
    (await tensors?.finish()) ??
    fail("invalid_argument", `${source.name} is empty: there is nothing to import`)
  );
}

function objectOfLine(line: Line, where: string, name: string): Row {
  return objectOf(textOfLine(line, name), where);
}

function objectOf(text: string, where: string): Row {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    fail("invalid_argument", `${where} is not JSON: ${messageOf(thrown)}`, thrown);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value))
    fail("invalid_argument", `${where} is not a JSON object`);
  return value as Row;
}

function numericRow(row: Row, where: string, textField: string): Row {
  if (!("inputs" in row))
    fail("invalid_argument", `${where} has neither a text in "${textField}" nor numbers in "inputs" (and "labels")`);
  return "labels" in row ? { inputs: row["inputs"], labels: row["labels"] } : { inputs: row["inputs"] };
}

function typesOf({
  inputsType,
  labelsType,
}: Pick<ImportRequest, "inputsType" | "labelsType">): Record<string, NumberType | undefined> {
  return { inputs: inputsType, labels: labelsType };
}

function rowBuilder(run: Run, fields: readonly FieldSpec[]) {
  const scaled = fields.map((field) =>
    field.name === "inputs" && run.request.scale ? { ...field, scale: run.request.scale } : field,
  );
  const builder = buildTensors(scaled, buildOptions(run, scaled));
  return {
    async add(row: Row, next: Position, where: string): Promise<void> {
      run.positions.mark(builder.samples + 1, next);
      await builder.add(valuesOfRow(row, scaled, where));
    },
    finish: () => builder.finish(),
  };
}

async function importCsv(run: Run): Promise<Manifest> {
  const { request, source, options, positions } = run;
  let builder = options.resume?.fields ? rowBuilder(run, options.resume.fields) : undefined;
  let layout = options.resume ? await layoutAgain(run) : undefined;
  for await (const line of linesOf(run)) {
    if (isBlank(line)) continue;
    const where = `line ${line.number} of ${source.name}`;
    const cells = splitCells(textOfLine(line, source.name), where);
    if (!layout) {
      layout = readLayout(cells, request.labels, where);
      positions.mark(0, line.next);
      if (layout.names) continue;
    }
    const row = rowOfCells(cells, layout, where);
    builder ??= rowBuilder(run, fieldsOfRow(row, typesOf(request), where));
    await builder.add(row, line.next, where);
  }
  return (
    (await builder?.finish()) ?? fail("invalid_argument", `${source.name} has no rows: there is nothing to import`)
  );
}

/** Going on in the middle of a file still needs its first line. */
async function layoutAgain({ source, request }: Run) {
  for await (const line of readLines(source.read(0), { offset: 0, line: 0 }, source.name)) {
    if (isBlank(line)) continue;
    const where = `line ${line.number} of ${source.name}`;
    return readLayout(splitCells(textOfLine(line, source.name), where), request.labels, where);
  }
  return undefined;
}

/**
 * Explicit tensors, small enough to be written down: `{"inputs": [[1, 2], [3, 4]], "labels": [0, 1]}`, a list of
 * samples for each field.
 */
export async function importInline(
  json: string,
  options: Pick<ImportOptions, "blobs" | "shardBytes"> & Pick<ImportRequest, "inputsType" | "labelsType">,
): Promise<Manifest> {
  const columns = Object.entries(objectOf(json, "the inline dataset"));
  if (!columns.some(([name]) => name === "inputs")) fail("invalid_argument", 'the inline dataset has no "inputs"');
  const lists = columns.map(([name, values]) => {
    if (!Array.isArray(values) || values.length === 0)
      fail("invalid_argument", `"${name}" of the inline dataset must be a list of samples`);
    return [name, values as readonly unknown[]] as const;
  });
  const samples = lists[0]?.[1].length ?? 0;
  if (lists.some(([, values]) => values.length !== samples))
    fail(
      "invalid_argument",
      `the fields ${lists.map(([name, values]) => `${name} (${values.length})`).join(", ")} differ in their number of samples`,
    );
  const rowAt = (i: number): Row => Object.fromEntries(lists.map(([name, values]) => [name, values[i]]));
  const fields = fieldsOfRow(rowAt(0), typesOf(options), "sample 0");
  const builder = buildTensors(fields, options);
  for (let i = 0; i < samples; i++) await builder.add(valuesOfRow(rowAt(i), fields, `sample ${i}`));
  return builder.finish();
}
