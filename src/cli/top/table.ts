// Tables of `dcnr top`: as many columns as the window takes, the most important ones first to be kept, each cell with a
// tone of its own. A tone is put on after the text was cut and padded, so colours never move anything.

import { cut, plain, type Tone } from "../shown/output.ts";

export interface Cell {
  readonly text: string;
  readonly tone?: Tone;
}

export interface TopColumn<Row> {
  readonly title: string;
  readonly align?: "right";
  /** Columns with higher numbers go first when the window is narrow; 0 stays. */
  readonly optional: number;
  /** Takes what is left of the line, and is cut. */
  readonly rest?: boolean;
  cell(row: Row): Cell | string;
}

const gap = "  ";
const restLeast = 12;

export function topTable<Row>(
  columns: readonly TopColumn<Row>[],
  rows: readonly Row[],
  width: number,
  paint: (tone: Tone, text: string) => string,
): string[] {
  const cells = rows.map((row) => columns.map((column) => asCell(column.cell(row))));
  const widths = columns.map(({ title, rest }, i) => {
    const longest = Math.max(title.length, ...cells.map((row) => row[i]?.text.length ?? 0));
    return rest ? Math.min(longest, restLeast) : longest;
  });
  const kept = keptColumns(columns, widths, width);
  const used = kept.reduce((sum, i) => sum + (widths[i] ?? 0), 0) + gap.length * (kept.length - 1);
  for (const i of kept) if (columns[i]?.rest) widths[i] = Math.max(0, (widths[i] ?? 0) + width - used);
  const line = (row: readonly Cell[]) => {
    const painted = kept.map((i) => {
      const { text, tone } = row[i] ?? { text: "" };
      const size = widths[i] ?? 0;
      const short = cut(text, size);
      const padded = columns[i]?.align === "right" ? short.padStart(size) : short.padEnd(size);
      return tone ? paint(tone, padded) : padded;
    });
    return painted.join(gap).trimEnd();
  };
  return [line(columns.map(({ title }) => ({ text: title, tone: "dim" }))), ...cells.map(line)];
}

function asCell(given: Cell | string): Cell {
  const cell = typeof given === "string" ? { text: given } : given;
  return { ...cell, text: plain(cell.text) };
}

/** Places of the columns that fit, in their order. */
function keptColumns<Row>(columns: readonly TopColumn<Row>[], widths: readonly number[], width: number): number[] {
  const kept = columns.map((_, i) => i);
  const total = () => kept.reduce((sum, i) => sum + (widths[i] ?? 0), 0) + gap.length * (kept.length - 1);
  while (total() > width) {
    const dropped = kept.reduce((worst, i) =>
      (columns[i]?.optional ?? 0) > (columns[worst]?.optional ?? 0) ? i : worst,
    );
    if ((columns[dropped]?.optional ?? 0) === 0) break;
    kept.splice(kept.indexOf(dropped), 1);
  }
  return kept;
}
