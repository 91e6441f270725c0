// One file of lines as rows, from any place on: text in pieces or lines, JSON lines, CSV with names in its first line. Packed files
// are unpacked on the way; going on in the middle of one means unpacking what is before it again.

import { Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createZstdDecompress } from "node:zlib";
import { fail, messageOf } from "../../core/errors.ts";
import { splitCells } from "../../data/formats/csv.ts";
import { type Line, type Position, readLines, textOfLine } from "../../data/formats/lines.ts";
import { readPieces } from "../../data/formats/text.ts";
import type { Source } from "../../data/imports/source.ts";
import type { Settings } from "../operator.ts";
import { parseRow, type Row, recordBytesMax, textOf } from "../records.ts";

export const lineFormats: readonly string[] = ["text", "jsonl", "csv"];

/** By the ending of a file's name. */
export const packings: Readonly<Record<string, () => NodeJS.ReadWriteStream>> = {
  gz: createGunzip,
  zst: createZstdDecompress,
  br: createBrotliDecompress,
};

/** Where the next row begins. */
export interface Stand {
  readonly position: Position;
  /** Of CSV: the names in the first line. */
  readonly names?: readonly string[];
}

export interface Read {
  readonly source: Source;
  readonly path: string;
  readonly format: string;
  readonly settings: Settings;
  readonly from: Stand | undefined;
}

export interface ReadRow {
  readonly row: Row;
  readonly stand: Stand;
}

export async function* readRows(read: Read): AsyncGenerator<ReadRow> {
  const { source, format, settings, from } = read;
  const position = from?.position ?? { offset: 0, line: 0 };
  const stream = unpacked(read, position.offset);
  switch (format) {
    case "jsonl":
      yield* jsonRows(
        readLines(stream, position, source.name),
        source.name,
        settings["textField"] as string | undefined,
      );
      return;
    case "csv":
      yield* csvRows(readLines(stream, position, source.name), source.name, from?.names);
      return;
    default:
      yield* textRows(read, stream, position);
  }
}

function unpacked({ source, path }: Read, offset: number): AsyncIterable<Uint8Array> {
  const ending = /\.([a-z]+)$/.exec(path)?.[1] ?? "";
  const open = Object.hasOwn(packings, ending) ? packings[ending] : undefined;
  if (!open) return source.read(offset);
  return behind(unpack(source, open), offset);
}

async function* unpack(source: Source, open: () => NodeJS.ReadWriteStream): AsyncGenerator<Uint8Array> {
  const packed = Readable.from(source.read(0));
  const plain = packed.pipe(open()) as unknown as Readable;
  packed.on("error", (error) => plain.destroy(error));
  try {
    for await (const piece of plain) yield piece as Uint8Array;
  } catch (thrown) {
    fail("invalid_argument", `${source.name} cannot be unpacked: ${messageOf(thrown)}`, thrown);
  } finally {
    packed.destroy();
  }
}

async function* behind(stream: AsyncIterable<Uint8Array>, offset: number): AsyncGenerator<Uint8Array> {
  let seen = 0;
  for await (const piece of stream) {
    const skip = Math.max(0, offset - seen);
    seen += piece.byteLength;
    if (skip < piece.byteLength) yield piece.subarray(skip);
  }
}

async function* textRows(
  { source, settings }: Read,
  stream: AsyncIterable<Uint8Array>,
  position: Position,
): AsyncGenerator<ReadRow> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  if (settings["documents"] === "lines") {
    for await (const line of readLines(stream, position, source.name)) {
      const text = textOfLine(line, source.name);
      if (text.trim() !== "") yield { row: { text }, stand: { position: line.next } };
    }
    return;
  }
  const pieces: string[] = [];
  let last = position;
  for await (const { bytes, next } of readPieces(stream, position, source.name)) {
    last = next;
    if (settings["documents"] === "files") {
      pieces.push(decoder.decode(bytes));
      if (last.offset > recordBytesMax)
        fail(
          "resource_exhausted",
          `${source.name} has more than ${recordBytesMax} bytes, which is too long for one row: read it in pieces or lines`,
        );
    } else yield { row: { text: decoder.decode(bytes) }, stand: { position: next } };
  }
  if (pieces.length > 0) yield { row: { text: pieces.join("") }, stand: { position: last } };
}

async function* jsonRows(
  lines: AsyncIterable<Line>,
  name: string,
  textField: string | undefined,
): AsyncGenerator<ReadRow> {
  for await (const line of lines) {
    const where = `line ${line.number} of ${name}`;
    const written = textOfLine(line, name);
    if (written.trim() === "") continue;
    const row = parseRow(written, where);
    const renamed = textField === undefined ? row : { ...row, text: textOf(row, textField, where) };
    yield { row: renamed, stand: { position: line.next } };
  }
}

async function* csvRows(
  lines: AsyncIterable<Line>,
  name: string,
  known: readonly string[] | undefined,
): AsyncGenerator<ReadRow> {
  let names = known;
  for await (const line of lines) {
    const where = `line ${line.number} of ${name}`;
    const written = textOfLine(line, name);
    if (written.trim() === "") continue;
    const cells = splitCells(written, where);
    if (names === undefined) {
      names = cells.map((cell) => cell.trim());
      if (new Set(names).size !== names.length)
        fail("invalid_argument", `${where} names a column twice: the first line of a CSV file has the names`);
      continue;
    }
    if (cells.length !== names.length)
      fail("invalid_argument", `${where} has ${cells.length} columns, the first line has ${names.length}`);
    const row = Object.fromEntries(names.map((column, i) => [column, cellValue(cells[i] as string)]));
    yield { row, stand: { position: line.next, names } };
  }
}

function cellValue(cell: string): string | number {
  const value = Number(cell);
  return cell.trim() === "" || !Number.isFinite(value) ? cell : value;
}
