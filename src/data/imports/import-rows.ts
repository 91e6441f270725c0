// Imports of rows: JSON lines, CSV and tensors written down. The first row decides the fields. If its label is a
// text, all labels are found in a pass of its own before the first sample is stored, since classes are numbered by name.

import { fail, messageOf } from "../../core/errors.ts";
import { buildTensors, type FieldSpec } from "../build.ts";
import { readLayout, rowOfCells, splitCells } from "../formats/csv.ts";
import { type Line, type Position, readLines, textOfLine } from "../formats/lines.ts";
import { fieldsOfRow, type NumberType, type Row, valuesOfRow } from "../formats/rows.ts";
import type { Manifest } from "../manifest.ts";
import { classNumbers, findClasses, refuseText } from "./classes.ts";
import { buildOptions, type ImportOptions, type ImportRequest, openPositions, type Run } from "./import-run.ts";

export interface SourceRow {
  readonly row: Row;
  /** For messages. */
  readonly where: string;
  /** Right behind it. */
  readonly next: Position;
  /** It may be the line of names instead: it is a sample if other samples have its label. */
  readonly isDoubtful?: true;
}

export type Rows = AsyncGenerator<SourceRow, void, void>;

/** What can be read once is kept in memory until all labels are known. */
const keptBytesMax = 64 << 20;

function linesOf({ source, positions }: Run): AsyncIterable<Line> {
  return readLines(source.read(positions.start.offset), positions.start, source.name);
}

function isBlank({ bytes }: Line): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09);
}

/** The same source from its start, with a progress of its own. */
function fromStart(run: Run): Run {
  const { blobs, onProgress } = run.options;
  const options = { blobs, ...(onProgress ? { onProgress } : {}) };
  return { ...run, options, positions: openPositions(run.source, options) };
}

/** The rows behind and with `first` as samples; undefined if there are none. */
export async function importRows(
  run: Run,
  first: IteratorResult<SourceRow, void>,
  rows: Rows,
  again: (run: Run) => Rows,
): Promise<Manifest | undefined> {
  const known = run.options.resume?.fields;
  if (first.done) return known && rowBuilder(run, known).finish();
  const { row, where } = first.value;
  const isText = !known && typeof row["labels"] === "string";
  if (!isText) {
    const builder = rowBuilder(run, known ?? fieldsOfRow(row, typesOf(run.request), where));
    await builder.add(first.value);
    for await (const one of rows) await builder.add(one);
    return builder.finish();
  }
  checkType(run.request, where);
  const kept = run.source.once && (await keep(first.value, rows, run));
  // A stream that stands still while another pass goes on might break: it is opened again.
  if (!kept) await rows.return();
  const classes = await classesOf(first.value, kept || counted(fromStart(run), again));
  const builder = rowBuilder(run, fieldsOfRow(row, typesOf(run.request), where, classes));
  for await (const one of kept || again(run)) await builder.add(one);
  return builder.finish();
}

async function keep(first: SourceRow, rows: Rows, { source }: Run): Promise<SourceRow[]> {
  const kept = [first];
  for await (const one of rows) {
    kept.push(one);
    if (one.next.offset > keptBytesMax)
      fail(
        "resource_exhausted",
        `${source.name} has more than ${keptBytesMax >> 20} MiB with texts for labels, which are read twice: store it in a file and give that`,
      );
  }
  return kept;
}

async function* counted(run: Run, again: (run: Run) => Rows): Rows {
  let rows = 0;
  for await (const one of again(run)) {
    run.positions.report(++rows, one.next.offset);
    yield one;
  }
}

async function classesOf(
  { row, where, isDoubtful }: SourceRow,
  rows: AsyncIterable<SourceRow> | Iterable<SourceRow>,
): Promise<readonly string[]> {
  const classes = await findClasses(rows);
  const label = row["labels"];
  if (isDoubtful && classes.count(label) === 1)
    fail(
      "invalid_argument",
      `${where} may be a sample or the names of the columns, for no other row has the label "${label}": say --labels "${label}" if that is the column's name, else put a line of names before it`,
    );
  return classes.names;
}

function checkType({ labelsType }: Pick<ImportRequest, "labelsType">, where: string): void {
  if (labelsType === "float32")
    fail("invalid_argument", `${where} has a text for its label: classes are int32, labels cannot be float32`);
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
  const values = valuesBy(scaled);
  return {
    async add({ row, next, where }: SourceRow): Promise<void> {
      run.positions.mark(builder.samples + 1, next);
      await builder.add(values(row, where));
    },
    finish: () => builder.finish(),
  };
}

function valuesBy(fields: readonly FieldSpec[]) {
  const labels = fields.find((field) => field.name === "labels");
  const numberOf = labels?.classes && classNumbers(labels.classes);
  return (row: Row, where: string) => {
    if (numberOf) return valuesOfRow({ ...row, labels: numberOf(row["labels"], where) }, fields, where);
    if (labels) refuseText(row["labels"], where);
    return valuesOfRow(row, fields, where);
  };
}

/** The objects of a file of JSON lines; `labels` without spaces around it. */
export async function* objectsOf(run: Run): Rows {
  for await (const line of linesOf(run)) {
    if (isBlank(line)) continue;
    const where = `line ${line.number} of ${run.source.name}`;
    const row = objectOf(textOfLine(line, run.source.name), where);
    const labels = row["labels"];
    yield { row: typeof labels === "string" ? { ...row, labels: labels.trim() } : row, where, next: line.next };
  }
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

export async function importJsonRows(
  run: Run,
  first: IteratorResult<SourceRow, void>,
  rows: Rows,
  textField: string,
): Promise<Manifest> {
  const begin = first.done ? first : { value: { ...first.value, row: numericRow(first.value, textField) } };
  const manifest = await importRows(run, begin, rows, objectsOf);
  return manifest ?? fail("invalid_argument", `${run.source.name} is empty: there is nothing to import`);
}

function numericRow({ row, where }: SourceRow, textField: string): Row {
  if (!("inputs" in row))
    fail("invalid_argument", `${where} has neither a text in "${textField}" nor numbers in "inputs" (and "labels")`);
  return "labels" in row ? { inputs: row["inputs"], labels: row["labels"] } : { inputs: row["inputs"] };
}

export async function importCsv(run: Run): Promise<Manifest> {
  const rows = csvRows(run);
  const manifest = await importRows(run, await rows.next(), rows, csvRows);
  return manifest ?? fail("invalid_argument", `${run.source.name} has no rows: there is nothing to import`);
}

async function* csvRows(run: Run): Rows {
  const { request, source, options, positions } = run;
  let layout = options.resume ? await layoutAgain(run) : undefined;
  let open: SourceRow | undefined;
  for await (const line of linesOf(run)) {
    if (isBlank(line)) continue;
    const where = `line ${line.number} of ${source.name}`;
    const { next } = line;
    const cells = splitCells(textOfLine(line, source.name), where);
    if (!layout) {
      layout = readLayout(cells, request.labels, where);
      positions.mark(0, next);
      if (layout.first === "open") open = { row: rowOfCells(cells, layout, where), where, next, isDoubtful: true };
      if (layout.first !== "sample") continue;
    }
    const row = rowOfCells(cells, layout, where);
    // A word above numbers is a name.
    if (open && typeof row["labels"] === "string") yield open;
    open = undefined;
    yield { row, where, next };
  }
}

/** Going on in the middle of a file still needs its first line. */
async function layoutAgain(run: Run) {
  for await (const line of linesOf(fromStart(run))) {
    if (isBlank(line)) continue;
    const where = `line ${line.number} of ${run.source.name}`;
    return readLayout(splitCells(textOfLine(line, run.source.name), where), run.request.labels, where);
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
  const rows = Array.from({ length: samples }, (_, i) => ({
    row: Object.fromEntries(lists.map(([name, values]) => [name, values[i]])) as Row,
    where: `sample ${i}`,
  }));
  const first = rows[0]?.row ?? {};
  const isText = typeof first["labels"] === "string";
  if (isText) checkType(options, "sample 0");
  const classes = isText ? (await findClasses(rows)).names : undefined;
  const fields = fieldsOfRow(first, typesOf(options), "sample 0", classes);
  const builder = buildTensors(fields, options);
  const values = valuesBy(fields);
  for (const { row, where } of rows) await builder.add(values(row, where));
  return builder.finish();
}
