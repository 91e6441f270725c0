// Imports of Parquet files: rows of numbers with a label, or documents of a column of texts. Row groups are read one by one, and only
// the columns that are asked for.

import { fail } from "../../core/errors.ts";
import { buildText } from "../build.ts";
import { labelColumnOf } from "../formats/csv.ts";
import { Breaths } from "../formats/parquet/breaths.ts";
import { type Chunk, type Column, type ParquetFile, type RowGroup, readFooter } from "../formats/parquet/metadata.ts";
import { type ColumnValue, readChunk } from "../formats/parquet/pages.ts";
import type { Manifest } from "../manifest.ts";
import { type ForwardReader, openForward } from "./forward-reader.ts";
import { importRows, type Rows } from "./import-rows.ts";
import { buildOptions, type ImportRequest, notEmpty, type Run } from "./import-run.ts";
import type { Source } from "./source.ts";

/** Footers of the largest files have some megabytes. */
const footerBytesMax = 64 << 20;

export async function importParquet(run: Run): Promise<Manifest> {
  const file = await openParquet(run.source);
  const { request, source } = run;
  const text = textColumn(file, request);
  if (text !== undefined) return importDocuments(run, file, text);
  const layout = layoutOf(file.columns, request, source.name);
  const rows = (given: Run) => parquetRows(given, file, layout);
  const all = rows(run);
  const manifest = await importRows(run, await all.next(), all, rows);
  return manifest ?? fail("invalid_argument", `${source.name} has no rows: there is nothing to import`);
}

async function openParquet(source: Source): Promise<ParquetFile> {
  const { bytes, name, once } = source;
  if (bytes === undefined || once)
    return fail("invalid_argument", `${name} cannot be read from its end, where Parquet begins: store it in a file`);
  if (bytes < 12) fail("invalid_argument", `${name} is no Parquet file`);
  const reader = openForward(source);
  try {
    const tail = Buffer.from(await reader.bytes(bytes - 8, 8));
    const length = footerBytes(tail, bytes, name);
    return readFooter(await reader.bytes(bytes - 8 - length, length), bytes, name);
  } finally {
    await reader.close();
  }
}

function footerBytes(tail: Buffer, fileBytes: number, name: string): number {
  const magic = tail.toString("latin1", 4, 8);
  if (magic === "PARE") fail("unimplemented", `${name} is encrypted, which is not supported`);
  const length = tail.readUInt32LE(0);
  if (magic !== "PAR1") fail("invalid_argument", `${name} is no Parquet file, or cut off`);
  if (length > fileBytes - 12) fail("invalid_argument", `${name} is damaged: its description is longer than the file`);
  if (length > footerBytesMax)
    fail("resource_exhausted", `${name} has a description of ${length} bytes, at most ${footerBytesMax} are allowed`);
  return length;
}

/** The column of documents, unless labels or columns say that numbers are wanted. */
function textColumn(
  { columns }: ParquetFile,
  { textField, labels, columns: inputs }: ImportRequest,
): Column | undefined {
  if (labels !== undefined || inputs !== undefined) return undefined;
  return columns.find(({ name, isText }) => isText && name === (textField ?? "text"));
}

interface Layout {
  readonly inputs: readonly Column[];
  readonly label: Column | undefined;
}

function layoutOf(columns: readonly Column[], request: ImportRequest, name: string): Layout {
  const names = columns.map((column) => column.name);
  const at = request.labels === "none" ? undefined : labelColumnOf(request.labels, names, columns.length, name);
  const label = at === undefined ? undefined : columns[at];
  const inputs =
    request.columns?.map(
      (wanted) =>
        columns.find((column) => column.name === wanted) ??
        fail("invalid_argument", `${name} has no column "${wanted}": it has ${names.join(", ")}`),
    ) ?? columns.filter((column) => column !== label);
  if (inputs.length === 0) fail("invalid_argument", `${name} has no column left for inputs`);
  for (const column of [...inputs, ...(label ? [label] : [])])
    if (column.refused !== undefined)
      fail(
        "unimplemented",
        `column "${column.name}" of ${name} ${column.refused}, which is not supported: choose others by --columns`,
      );
  const text = inputs.find(({ isText }) => isText);
  if (text !== undefined)
    fail(
      "invalid_argument",
      `column "${text.name}" of ${name} holds texts, inputs are numbers: choose others by --columns`,
    );
  return { inputs, label };
}

async function* parquetRows({ source, positions }: Run, file: ParquetFile, { inputs, label }: Layout): Rows {
  for await (const { row, values, next } of groupsOf(
    source,
    file,
    [...inputs, ...(label ? [label] : [])],
    positions.start.line,
  )) {
    const where = `row ${row + 1} of ${source.name}`;
    const filled = values.map((value, i) => {
      const { name } = inputs[i] ?? (label as Column);
      return (
        value ?? fail("invalid_argument", `${where} has no value in column "${name}": fill it or leave the row out`)
      );
    });
    const labels = label && {
      labels: typeof filled.at(-1) === "string" ? String(filled.at(-1)).trim() : filled.at(-1),
    };
    yield { row: { inputs: filled.slice(0, inputs.length), ...labels }, where, next };
  }
}

async function importDocuments(run: Run, file: ParquetFile, column: Column): Promise<Manifest> {
  const { source, positions } = run;
  const builder = buildText(false, buildOptions(run));
  for await (const { row, values, next } of groupsOf(source, file, [column], positions.start.line)) {
    const document =
      values[0] ?? fail("invalid_argument", `row ${row + 1} of ${source.name} has no text in "${column.name}"`);
    positions.mark(builder.documents + 1, next);
    await builder.add(new TextEncoder().encode(String(document)));
  }
  return notEmpty(builder.documents, source) && builder.finish();
}

/** Rows from `first` on, with the values of the columns. */
async function* groupsOf(source: Source, { groups }: ParquetFile, columns: readonly Column[], first: number) {
  const reader = openForward(source);
  const breaths = new Breaths();
  let row = 0;
  try {
    for (const group of groups) {
      if (row + group.rows <= first) {
        row += group.rows;
        continue;
      }
      const chunks = columns.map((column) => chunkOf(group, column, source.name));
      const values = await valuesOf(reader, chunks, group.rows, source.name);
      const end = Math.max(...chunks.map(({ offset, bytes }) => offset + bytes));
      for (let i = 0; i < group.rows; i++, row++) {
        // Whoever takes the rows need not wait for anything.
        if (breaths.isDue(columns.length)) await breaths.take();
        if (row >= first)
          yield { row, values: values.map((column) => column[i]), next: { offset: end, line: row + 1 } };
      }
    }
  } finally {
    await reader.close();
  }
}

/** Of each chunk; they are read in the order in which they lie in the file. */
async function valuesOf(
  reader: ForwardReader,
  chunks: readonly Chunk[],
  rows: number,
  name: string,
): Promise<ColumnValue[][]> {
  const values = chunks.map((): ColumnValue[] => []);
  for (const [i, chunk] of [...chunks.entries()].sort(([, a], [, b]) => a.offset - b.offset))
    values[i] = await readChunk(await reader.bytes(chunk.offset, chunk.bytes), chunk, rows, name);
  return values;
}

function chunkOf({ chunks }: RowGroup, column: Column, name: string): Chunk {
  return (
    chunks.find((chunk) => chunk.column === column) ??
    fail("invalid_argument", `${name} is damaged: column "${column.name}" is missing`)
  );
}
