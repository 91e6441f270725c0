// CSV: one row a sample, one column the label (a number or a text), the others the inputs (numbers).

import { fail } from "../../core/errors.ts";
import type { Row } from "./rows.ts";

export interface CsvLayout {
  readonly columns: number;
  readonly names: readonly string[] | undefined;
  /** What the first line is. "open": its label alone is no number, so it may be either. */
  readonly first: "names" | "sample" | "open";
  /** Undefined: there are no labels. */
  readonly labelColumn: number | undefined;
}

const labelNames = ["label", "labels", "target", "class", "y"];

export function splitCells(text: string, where: string): string[] {
  const cells: string[] = [];
  let at = 0;
  for (;;) {
    if (text[at] === '"') {
      let cell = "";
      for (at++; ; at++) {
        if (at >= text.length) fail("invalid_argument", `${where}: a quotation mark is not closed on its line`);
        if (text[at] !== '"') cell += text[at];
        else if (text[at + 1] === '"') cell += text[at++];
        else break;
      }
      at++;
      if (at < text.length && text[at] !== ",")
        fail("invalid_argument", `${where}: a comma is expected after a quoted cell`);
      cells.push(cell);
    } else {
      const comma = text.indexOf(",", at);
      cells.push(text.slice(at, comma < 0 ? undefined : comma));
      at = comma < 0 ? text.length : comma;
    }
    if (at >= text.length) return cells;
    at++;
  }
}

/** Reads the first line. `labels` is a name, a number from 0, or "none". */
export function readLayout(cells: readonly string[], labels: string | undefined, where: string): CsvLayout {
  const words = cells.map((cell) => numberOf(cell) === undefined);
  const trimmed = words.includes(true) ? cells.map((cell) => cell.trim()) : undefined;
  const labelColumn = labels === "none" ? undefined : labelColumnOf(labels, trimmed, cells.length, where);
  if (cells.length - (labelColumn === undefined ? 0 : 1) < 1)
    fail("invalid_argument", `${where} has no column left for inputs: a row needs at least one, and one for the label`);
  const label = labelColumn === undefined ? undefined : trimmed?.[labelColumn];
  const isNamed = words.some((isWord, i) => isWord && i !== labelColumn) || (label !== undefined && label === labels);
  const first = !trimmed ? "sample" : isNamed ? "names" : "open";
  return { columns: cells.length, names: first === "names" ? trimmed : undefined, first, labelColumn };
}

function numberOf(cell: string): number | undefined {
  const value = Number(cell);
  return cell.trim() === "" || !Number.isFinite(value) ? undefined : value;
}

/** The label's column: by name, by number from 0, else the usual name, else the last. */
export function labelColumnOf(
  labels: string | undefined,
  names: readonly string[] | undefined,
  columns: number,
  where: string,
): number {
  if (labels === undefined) {
    const usual = names?.findIndex((name) => labelNames.includes(name.toLowerCase())) ?? -1;
    return usual >= 0 ? usual : columns - 1;
  }
  const named = names?.indexOf(labels) ?? -1;
  const column = named >= 0 ? named : /^\d+$/.test(labels) ? Number(labels) : -1;
  if (column < 0 || column >= columns)
    fail(
      "not_found",
      `${where} has no column "${labels}"${names ? `, it has ${names.join(", ")}` : ` among its ${columns}`}`,
    );
  return column;
}

export function rowOfCells(cells: readonly string[], layout: CsvLayout, where: string): Row {
  if (cells.length !== layout.columns)
    fail("invalid_argument", `${where} has ${cells.length} columns, the first line has ${layout.columns}`);
  const inputs: number[] = [];
  let labels: number | string | undefined;
  for (const [i, cell] of cells.entries()) {
    if (i === layout.labelColumn) labels = numberOf(cell) ?? (cell.trim() || refuse(cell, i, "label"));
    else inputs.push(numberOf(cell) ?? refuse(cell, i, "number"));
  }
  return labels === undefined ? { inputs } : { inputs, labels };

  function refuse(cell: string, i: number, expected: string): never {
    const column = layout.names?.[i] ?? i + 1;
    fail("invalid_argument", `${where}, column ${column} has "${cell.slice(0, 40)}" where a ${expected} is expected`);
  }
}
