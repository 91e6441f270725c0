// The values of one column of one row group: pages are unpacked and read by their encodings (plain, dictionary, run lengths). What is
// refused is named: other encodings and codecs, and rows without a value.

import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { fail } from "../../../core/errors.ts";
import { asStruct, type Chunk, count } from "./metadata.ts";
import { unpackSnappy } from "./snappy.ts";
import { ThriftReader, type ThriftStruct } from "./thrift.ts";

export type ColumnValue = number | string | undefined;

/** A page that says more has been made to fill memory. */
const pageBytesMax = 1 << 28;

const encodings = [
  "plain",
  "",
  "dictionary",
  "run lengths",
  "bit-packed",
  "delta",
  "delta lengths",
  "delta texts",
  "dictionary",
  "byte stream split",
];
const codecs = ["none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4 raw"];

/** One value for each row; undefined where there is none. */
export function readChunk(bytes: Uint8Array, chunk: Chunk, rows: number, name: string): ColumnValue[] {
  const where = `column "${chunk.column.name}" of ${name}`;
  const damaged = (what: string): never => fail("invalid_argument", `${where} is damaged: ${what}`);
  if (chunk.values !== rows) damaged(`it has ${chunk.values} values for ${rows} rows`);
  const values: ColumnValue[] = [];
  let dictionary: ColumnValue[] | undefined;
  for (let at = 0; values.length < rows; ) {
    if (at >= bytes.length) damaged("it ends too early");
    const reader = new ThriftReader(bytes, where, at);
    const header = reader.struct();
    const [kind, size, packedSize] = [count(header, 1, where), count(header, 2, where), count(header, 3, where)];
    const packed = bytes.subarray(reader.position, reader.position + packedSize);
    if (packed.length !== packedSize) damaged("a page is longer than the column");
    if (size > pageBytesMax)
      fail("resource_exhausted", `${where} has a page of ${size} bytes, at most ${pageBytesMax} are allowed`);
    at = reader.position + packedSize;
    if (kind === 2) {
      const page = unpack(chunk.codec, packed, size, where);
      dictionary = readPlain(page, chunk, count(asStruct(header.get(7), where), 1, where), where);
    } else if (kind === 0 || kind === 3) {
      const page = (kind === 0 ? firstKind : secondKind)(header, packed, size, chunk, where);
      for (const value of readPage(page, chunk, dictionary, where)) values.push(value);
    }
  }
  return values.length === rows ? values : damaged("it has more values than rows");
}

interface Page {
  readonly total: number;
  readonly encoding: number;
  /** Which rows have a value, for columns that may be empty. */
  readonly levels: Uint8Array;
  readonly body: Uint8Array;
}

function firstKind(header: ThriftStruct, packed: Uint8Array, size: number, chunk: Chunk, where: string): Page {
  const facts = asStruct(header.get(5), where);
  const body = unpack(chunk.codec, packed, size, where);
  // The levels' length stands in front of them.
  const start = chunk.column.optional ? 4 : 0;
  const end = start + (chunk.column.optional ? numberAt(body, 0, where) : 0);
  const [total, encoding] = [count(facts, 1, where), count(facts, 2, where)];
  return { total, encoding, levels: body.subarray(start, end), body: body.subarray(end) };
}

/** Levels stand in front, unpacked. */
function secondKind(header: ThriftStruct, packed: Uint8Array, size: number, chunk: Chunk, where: string): Page {
  const facts = asStruct(header.get(8), where);
  const [levels, repeats] = [count(facts, 5, where), count(facts, 6, where)];
  if (levels + repeats > Math.min(size, packed.length))
    fail("invalid_argument", `${where} is damaged: a page ends too early`);
  const rest = packed.subarray(levels + repeats);
  const body = facts.get(7) === false ? rest : unpack(chunk.codec, rest, size - levels - repeats, where);
  const [total, encoding] = [count(facts, 1, where), count(facts, 4, where)];
  return { total, encoding, levels: packed.subarray(repeats, repeats + levels), body };
}

function unpack(codec: number, packed: Uint8Array, size: number, where: string): Uint8Array {
  const name = codecs[codec] ?? `number ${codec}`;
  if (name === "none") return packed;
  if (name === "snappy") return unpackSnappy(packed, size, where);
  if (name !== "gzip" && name !== "zstd")
    fail("unimplemented", `${where} is packed by ${name}: none, snappy, gzip and zstd are supported`);
  try {
    const options = { maxOutputLength: Math.max(1, size) };
    const out = name === "gzip" ? gunzipSync(packed, options) : zstdDecompressSync(packed, options);
    if (out.byteLength === size) return out;
  } catch {
    // Damage and too much are told alike, below.
  }
  return fail("invalid_argument", `${where} is damaged: a page cannot be unpacked`);
}

function readPage(
  page: Page,
  chunk: Chunk,
  dictionary: readonly ColumnValue[] | undefined,
  where: string,
): ColumnValue[] {
  // A page of run lengths can claim any number of rows in a few bytes.
  if (page.total > chunk.values)
    fail("invalid_argument", `${where} is damaged: a page has more values than the column`);
  const present = chunk.column.optional ? readRuns(page.levels, 1, page.total, where) : undefined;
  const filled = present ? present.reduce((sum, level) => sum + level, 0) : page.total;
  const values = readValues(page, filled, chunk, dictionary, where);
  if (present === undefined) return values;
  let at = 0;
  return Array.from(present, (level) => (level === 1 ? values[at++] : undefined));
}

function readValues(
  { encoding, body }: Page,
  filled: number,
  chunk: Chunk,
  dictionary: readonly ColumnValue[] | undefined,
  where: string,
): ColumnValue[] {
  const kind = encodings[encoding] ?? `number ${encoding}`;
  if (kind === "plain") return readPlain(body, chunk, filled, where);
  if (kind === "run lengths" && chunk.column.type === "boolean")
    return [...readRuns(body.subarray(4), 1, filled, where)];
  if (kind !== "dictionary")
    fail("unimplemented", `${where} is encoded as ${kind}: plain, dictionary and run lengths are supported`);
  if (dictionary === undefined) fail("invalid_argument", `${where} is damaged: its dictionary is missing`);
  if (filled === 0) return [];
  const indices = readRuns(body.subarray(1), body[0] ?? 0, filled, where);
  return Array.from(indices, (index) =>
    index < dictionary.length
      ? dictionary[index]
      : fail("invalid_argument", `${where} is damaged: value ${index} is not in its dictionary`),
  );
}

/** Runs of one number, or groups of eight numbers of `width` bits. */
function readRuns(bytes: Uint8Array, width: number, total: number, where: string): Uint32Array {
  if (width > 32) fail("invalid_argument", `${where} is damaged: numbers of ${width} bits`);
  const values = new Uint32Array(total);
  let [at, filled] = [0, 0];
  while (filled < total) {
    let [head, shift] = [0, 0];
    for (;;) {
      const byte = bytes[at++];
      if (byte === undefined || shift > 35) fail("invalid_argument", `${where} is damaged: a page ends too early`);
      head += (byte & 0x7f) * 2 ** shift;
      shift += 7;
      if (byte < 0x80) break;
    }
    const run = Math.floor(head / 2);
    // A run of nothing would never end.
    if (run === 0) fail("invalid_argument", `${where} is damaged: an empty run`);
    if (head % 2 === 0) {
      let value = 0;
      for (let i = 0; i < Math.ceil(width / 8); i++) value += (bytes[at++] ?? 0) * 2 ** (8 * i);
      const end = Math.min(total, filled + run);
      values.fill(value, filled, end);
      filled = end;
      continue;
    }
    const wanted = Math.min(total - filled, run * 8);
    if (at + Math.ceil((wanted * width) / 8) > bytes.length)
      fail("invalid_argument", `${where} is damaged: a page ends too early`);
    for (let i = 0; i < wanted; i++) values[filled++] = bitsAt(bytes, at * 8 + i * width, width);
    at += run * width;
  }
  return values;
}

function bitsAt(bytes: Uint8Array, bit: number, width: number): number {
  let value = 0;
  for (let i = 0; i < width; i++) {
    const at = bit + i;
    if (((bytes[at >> 3] as number) >> (at & 7)) & 1) value += 2 ** i;
  }
  return value;
}

const widths: Readonly<Record<string, number>> = { int32: 4, int64: 8, float: 4, double: 8 };
const decoder = new TextDecoder();

function readPlain(bytes: Uint8Array, { column }: Chunk, total: number, where: string): ColumnValue[] {
  const { type } = column;
  const early = (): never => fail("invalid_argument", `${where} is damaged: a page ends too early`);
  if (type === "boolean") {
    if (bytes.length * 8 < total) early();
    return Array.from({ length: total }, (_, i) => ((bytes[i >> 3] as number) >> (i & 7)) & 1);
  }
  if (type === "bytes") {
    if (bytes.length < 4 * total) early();
    let at = 0;
    return Array.from({ length: total }, () => {
      const length = numberAt(bytes, at, where);
      if (length > bytes.length - at - 4) early();
      at += 4 + length;
      return decoder.decode(bytes.subarray(at - length, at));
    });
  }
  const width =
    widths[type] ?? fail("unimplemented", `${where} has values of the type ${type}, which are not supported`);
  if (bytes.length < width * total) early();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = {
    int32: (at: number) => view.getInt32(at, true),
    int64: (at: number) => Number(view.getBigInt64(at, true)),
    float: (at: number) => view.getFloat32(at, true),
    double: (at: number) => view.getFloat64(at, true),
  }[type as "int32" | "int64" | "float" | "double"];
  return Array.from({ length: total }, (_, i) => read(i * width));
}

function numberAt(bytes: Uint8Array, at: number, where: string): number {
  if (at + 4 > bytes.length) fail("invalid_argument", `${where} is damaged: a page ends too early`);
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(at, true);
}
