// What commands print: lines, tables that fit the terminal, JSON. Colours only on a terminal; plain
// ASCII where the terminal has no UTF-8. Text from the network never reaches the terminal unescaped.

import { asCalled, callName } from "../call-name.ts";

export type Tone = "good" | "warn" | "bad" | "dim" | "bold" | "accent";

export interface Column {
  readonly title: string;
  readonly align?: "right";
  /** Columns that give way first when the terminal is narrow have the lowest weight; default 1. */
  readonly shrink?: boolean;
}

export interface Output {
  readonly isTerminal: boolean;
  readonly width: number;
  readonly unicode: boolean;
  line(text?: string): void;
  /** A line that names commands to type: they are written as this person calls them. */
  advice(text: string): void;
  /** Goes to standard error: progress, notes, anything that is not the data itself. Commands are written as in advice. */
  note(text: string): void;
  json(value: unknown): void;
  table(columns: readonly Column[], rows: readonly (readonly string[])[]): void;
  tone(tone: Tone, text: string): string;
  /** Raw bytes to standard output, for generated text that streams. */
  raw(text: string): void;
  /** Rewrites the last line or lines on standard error; a no-op without a terminal. */
  status(text: string): void;
}

const tones: Record<Tone, string> = { good: "32", warn: "33", bad: "31", dim: "2", bold: "1", accent: "36" };

export function openOutput(environment: NodeJS.ProcessEnv, noColor: boolean): Output {
  const isTerminal = process.stdout.isTTY === true;
  const statusTerminal = process.stderr.isTTY === true;
  const coloured = !noColor && isTerminal && !environment["NO_COLOR"] && environment["TERM"] !== "dumb";
  const unicode = /utf-?8/i.test(environment["LC_ALL"] ?? environment["LC_CTYPE"] ?? environment["LANG"] ?? "");
  const width = () => Math.max(20, process.stdout.columns ?? (Number(environment["COLUMNS"]) || 100));
  let statusLines = 0;
  const clearStatus = () => {
    if (statusLines > 0) process.stderr.write(`\r\x1b[2K${"\x1b[1A\x1b[2K".repeat(statusLines - 1)}`);
    statusLines = 0;
  };
  const out: Output = {
    isTerminal,
    get width() {
      return width();
    },
    unicode,
    line: (text = "") => {
      clearStatus();
      process.stdout.write(`${text}\n`);
    },
    advice: (text) => out.line(asCalled(text, callName(environment))),
    note: (text) => {
      clearStatus();
      process.stderr.write(`${asCalled(text, callName(environment))}\n`);
    },
    json: (value) => void process.stdout.write(`${JSON.stringify(value, jsonValue, 2)}\n`),
    table: (columns, rows) => {
      for (const line of layOut(columns, rows, width(), isTerminal))
        out.line(line.head ? out.tone("dim", line.text) : line.text);
    },
    tone: (tone, text) => (coloured ? `\x1b[${tones[tone]}m${text}\x1b[0m` : text),
    raw: (text) => void process.stdout.write(text),
    status: (text) => {
      if (!statusTerminal) return;
      clearStatus();
      const lines = text.split("\n").map((line) => cut(line, (process.stderr.columns ?? 80) - 1));
      process.stderr.write(lines.join("\n"));
      statusLines = lines.length;
    },
  };
  return out;
}

/** Protobuf's bigints and byte arrays as JSON has them. */
export function jsonValue(key: string, value: unknown): unknown {
  if (key === "$typeName" || key === "$unknown") return undefined;
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : value.toString();
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  return value;
}

export function layOut(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
  fit: boolean,
): { text: string; head: boolean }[] {
  const cells = rows.map((row) => row.map(plain));
  const widths = columns.map((column, i) => Math.max(column.title.length, ...cells.map((row) => row[i]?.length ?? 0)));
  if (fit) shrinkTo(widths, columns, width - 2 * (columns.length - 1));
  const render = (row: readonly string[]) =>
    columns
      .map((column, i) => {
        const text = cut(row[i] ?? "", widths[i] ?? 0);
        return column.align === "right" ? text.padStart(widths[i] ?? 0) : text.padEnd(widths[i] ?? 0);
      })
      .join("  ")
      .trimEnd();
  return [
    { text: render(columns.map((column) => column.title)), head: true },
    ...cells.map((row) => ({ text: render(row), head: false })),
  ];
}

function shrinkTo(widths: number[], columns: readonly Column[], available: number): void {
  const least = (i: number) => (columns[i]?.shrink ? 4 : 6);
  for (;;) {
    const total = widths.reduce((sum, size) => sum + size, 0);
    if (total <= available) return;
    const candidates = widths.map((_, i) => i).filter((i) => (widths[i] ?? 0) > least(i));
    const preferred = candidates.filter((i) => columns[i]?.shrink);
    const pool = preferred.length > 0 ? preferred : candidates;
    if (pool.length === 0) return;
    const widest = pool.reduce((best, i) => ((widths[i] ?? 0) > (widths[best] ?? 0) ? i : best));
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
}

/** Control characters would let a PNode's name paint the terminal. */
export function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: removing them is the point
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "?");
}

export function cut(text: string, width: number): string {
  if (text.length <= width) return text;
  return width <= 1 ? text.slice(0, Math.max(0, width)) : `${text.slice(0, width - 1)}~`;
}
