// From a source to a dataset: picks the format and streams records into a builder. Texts are read here; rows of
// numbers in import-rows.ts, values in fixed places in import-arrays.ts.

import { fail } from "../../core/errors.ts";
import { entryOf } from "../../core/words/table.ts";
import { buildText } from "../build.ts";
import { readPieces } from "../formats/text.ts";
import type { Manifest } from "../manifest.ts";
import { isFolder } from "./folder.ts";
import { importArrays, importTokens } from "./import-arrays.ts";
import { importImages } from "./import-images.ts";
import { importParquet } from "./import-parquet.ts";
import { importCsv, importJsonRows, objectsOf } from "./import-rows.ts";
import {
  buildOptions,
  type Format,
  type ImportOptions,
  type ImportRequest,
  notEmpty,
  openPositions,
  type Run,
} from "./import-run.ts";
import { openSource, type SourceAccess } from "./source.ts";

export async function importDataset(
  request: ImportRequest,
  access: SourceAccess,
  options: ImportOptions,
): Promise<Manifest> {
  const format = request.format ?? ((await isFolder(request.source)) ? "images" : formatOf(request.source));
  if (format === "images") return importImages(request, access, options);
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
    case "parquet":
      return importParquet(run);
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
  parquet: "parquet",
  npy: "npy",
  bin: "raw",
  raw: "raw",
};

export function formatOf(source: string): Format {
  const ending = /\.([a-z]+)(?:[?#].*)?$/i.exec(source)?.[1]?.toLowerCase();
  const format = ending === undefined ? undefined : entryOf(endings, ending);
  return (
    format ??
    fail(
      "invalid_argument",
      `the format of ${source} cannot be told from its name: say --format text, jsonl, csv, parquet, npy, raw or tokens`,
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

/** The first line decides: a text in the text field, or numbers. */
async function importJsonLines(run: Run): Promise<Manifest> {
  const { request, source, options, positions } = run;
  const textField = request.textField ?? "text";
  const lines = objectsOf(run);
  const first = await lines.next();
  if (options.resume ? options.resume.fields : !first.done && typeof first.value.row[textField] !== "string")
    return importJsonRows(run, first, lines, textField);
  const builder = buildText(false, buildOptions(run));
  for (let line = first; !line.done; line = await lines.next()) {
    const { row, where, next } = line.value;
    const document = row[textField];
    if (typeof document !== "string") fail("invalid_argument", `${where} has no text in its field "${textField}"`);
    positions.mark(builder.documents + 1, next);
    await builder.add(new TextEncoder().encode(document.toWellFormed()));
  }
  return notEmpty(builder.documents, source) && builder.finish();
}
