// CSV with numbers: one row a sample, one column the label, the others the inputs.

import { fail } from "../../core/errors.ts";
import type { Row } from "./rows.ts";

export interface CsvLayout {
  readonly columns: number;
  readonly names: readonly string[] | undefined;
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

/** Reads the first line: names if any of its cells is no number. `labels` is a name, a number from 0, or "none". */
export function readLayout(cells: readonly string[], labels: string | undefined, where: string): CsvLayout {
  const isHeader = cells.some((cell) => cell.trim() === "" || !Number.isFinite(Number(cell)));
  const names = isHeader ? cells.map((cell) => cell.trim()) : undefined;
  const labelColumn = labels === "none" ? undefined : columnOf(labels, names, cells.length, where);
  if (cells.length - (labelColumn === undefined ? 0 : 1) < 1)
    fail("invalid_argument", `${where} has no column left for inputs: a row needs at least one, and one for the label`);
  return { columns: cells.length, names, labelColumn };
}

function columnOf(
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
  const values = cells.map((cell, i) => {
    const value = Number(cell);
    if (cell.trim() === "" || !Number.isFinite(value))
      fail(
        "invalid_argument",
        `${where}, column ${layout.names?.[i] ?? i + 1} has "${cell.slice(0, 40)}" where a number is expected`,
      );
    return value;
  });
  if (layout.labelColumn === undefined) return { inputs: values };
  const [label] = values.splice(layout.labelColumn, 1);
  return { inputs: values, labels: label };
}
