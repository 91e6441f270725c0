// The values of one column of one row group: pages are unpacked and read by their encodings (plain, dictionary, run lengths). What is
// refused is named: other encodings and codecs, and rows without a value. A page may be large, so reading one gives others their turn.

import { promisify } from "node:util";
import { gunzip, zstdDecompress } from "node:zlib";
import { fail } from "../../../core/errors.ts";
import { lineBytesMax } from "../lines.ts";
import { Breaths, bytesPerValue } from "./breaths.ts";
import { asStruct, type Chunk, count } from "./metadata.ts";
import { unpackSnappy } from "./snappy.ts";
import { ThriftReader, type ThriftStruct } from "./thrift.ts";

export type ColumnValue = number | string | undefined;

/** A page that says more has been made to fill memory. */
const pageBytesMax = 1 << 28;

/** As long as a line of a text may be. */
const textBytesMax = lineBytesMax;

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
const unpackers = { gzip: promisify(gunzip), zstd: promisify(zstdDecompress) };
const codecs = ["none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4 raw"];

/** One value for each row; undefined where there is none. */
export async function readChunk(bytes: Uint8Array, chunk: Chunk, rows: number, name: string): Promise<ColumnValue[]> {
  const where = `column "${chunk.column.name}" of ${name}`;
  const damaged = (what: string): never => fail("invalid_argument", `${where} is damaged: ${what}`);
  if (chunk.values !== rows) damaged(`it has ${chunk.values} values for ${rows} rows`);
  const values: ColumnValue[] = [];
  const column: Reading = { chunk, where, breaths: new Breaths(), dictionary: undefined };
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
      const page = await unpack(packed, size, column);
      column.dictionary = await readPlain(page, count(asStruct(header.get(7), where), 1, where), column);
    } else if (kind === 0 || kind === 3) {
      const page = await (kind === 0 ? firstKind : secondKind)(header, packed, size, column);
      const read = await readPage(page, column);
      for (let i = 0; i < read.length; i++) values.push(read[i]);
    }
    await column.breaths.after(1);
  }
  return values.length === rows ? values : damaged("it has more values than rows");
}

/** A column while it is read. */
interface Reading {
  readonly chunk: Chunk;
  /** For messages. */
  readonly where: string;
  readonly breaths: Breaths;
  dictionary: readonly ColumnValue[] | undefined;
}

interface Page {
  readonly total: number;
  readonly encoding: number;
  /** Which rows have a value, for columns that may be empty. */
  readonly levels: Uint8Array;
  readonly body: Uint8Array;
}

async function firstKind(header: ThriftStruct, packed: Uint8Array, size: number, column: Reading): Promise<Page> {
  const { chunk, where } = column;
  const facts = asStruct(header.get(5), where);
  const body = await unpack(packed, size, column);
  // The levels' length stands in front of them.
  const start = chunk.column.optional ? 4 : 0;
  const end = start + (chunk.column.optional ? numberAt(body, 0, where) : 0);
  const [total, encoding] = [count(facts, 1, where), count(facts, 2, where)];
  return { total, encoding, levels: body.subarray(start, end), body: body.subarray(end) };
}

/** Levels stand in front, unpacked. */
async function secondKind(header: ThriftStruct, packed: Uint8Array, size: number, column: Reading): Promise<Page> {
  const { where } = column;
  const facts = asStruct(header.get(8), where);
  const [levels, repeats] = [count(facts, 5, where), count(facts, 6, where)];
  if (levels + repeats > Math.min(size, packed.length))
    fail("invalid_argument", `${where} is damaged: a page ends too early`);
  const rest = packed.subarray(levels + repeats);
  const body = facts.get(7) === false ? rest : await unpack(rest, size - levels - repeats, column);
  const [total, encoding] = [count(facts, 1, where), count(facts, 4, where)];
  return { total, encoding, levels: packed.subarray(repeats, repeats + levels), body };
}

async function unpack(packed: Uint8Array, size: number, { chunk, where, breaths }: Reading): Promise<Uint8Array> {
  const name = codecs[chunk.codec] ?? `number ${chunk.codec}`;
  if (name === "none") return packed;
  if (name === "snappy") return unpackSnappy(packed, size, where, breaths);
  if (name !== "gzip" && name !== "zstd")
    fail("unimplemented", `${where} is packed by ${name}: none, snappy, gzip and zstd are supported`);
  try {
    const out = await unpackers[name](packed, { maxOutputLength: Math.max(1, size) });
    if (out.byteLength === size) return out;
  } catch {
    // Damage and too much are told alike, below.
  }
  return fail("invalid_argument", `${where} is damaged: a page cannot be unpacked`);
}

async function readPage(page: Page, column: Reading): Promise<readonly ColumnValue[]> {
  const { chunk, where, breaths } = column;
  // A page of run lengths can claim any number of rows in a few bytes.
  if (page.total > chunk.values)
    fail("invalid_argument", `${where} is damaged: a page has more values than the column`);
  if (!chunk.column.optional) return readValues(page, page.total, column);
  const present = await readRuns(page.levels, 1, page.total, column);
  let filled = 0;
  for (const level of present) filled += level;
  const values = await readValues(page, filled, column);
  let at = 0;
  return breaths.list(present.length, (i) => (present[i] === 1 ? values[at++] : undefined));
}

async function readValues({ encoding, body }: Page, filled: number, column: Reading): Promise<readonly ColumnValue[]> {
  const { chunk, where, dictionary, breaths } = column;
  const kind = encodings[encoding] ?? `number ${encoding}`;
  if (kind === "plain") return readPlain(body, filled, column);
  if (kind === "run lengths" && chunk.column.type === "boolean") {
    const runs = await readRuns(body.subarray(4), 1, filled, column);
    return breaths.list(filled, (i) => runs[i]);
  }
  if (kind !== "dictionary")
    fail("unimplemented", `${where} is encoded as ${kind}: plain, dictionary and run lengths are supported`);
  if (dictionary === undefined) fail("invalid_argument", `${where} is damaged: its dictionary is missing`);
  if (filled === 0) return [];
  const indices = await readRuns(body.subarray(1), body[0] ?? 0, filled, column);
  return breaths.list(filled, (i) => {
    const index = indices[i] as number;
    if (index >= dictionary.length)
      fail("invalid_argument", `${where} is damaged: value ${index} is not in its dictionary`);
    return dictionary[index];
  });
}

/** Runs of one number, or groups of eight numbers of `width` bits. */
async function readRuns(bytes: Uint8Array, width: number, total: number, column: Reading): Promise<Uint32Array> {
  const { where, breaths } = column;
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
      if (breaths.isDue(1)) await breaths.take();
      continue;
    }
    const end = Math.min(total, filled + run * 8);
    if (at + Math.ceil(((end - filled) * width) / 8) > bytes.length)
      fail("invalid_argument", `${where} is damaged: a page ends too early`);
    for (let bit = at * 8; filled < end; bit += width) {
      values[filled++] = bitsAt(bytes, bit, width);
      if (breaths.isDue(1)) await breaths.take();
    }
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

async function readPlain(bytes: Uint8Array, total: number, column: Reading): Promise<readonly ColumnValue[]> {
  const { where, breaths } = column;
  const { type, isUnsigned } = column.chunk.column;
  const early = (): never => fail("invalid_argument", `${where} is damaged: a page ends too early`);
  if (type === "boolean") {
    if (bytes.length * 8 < total) early();
    return breaths.list(total, (i) => ((bytes[i >> 3] as number) >> (i & 7)) & 1);
  }
  if (type === "bytes") {
    if (bytes.length < 4 * total) early();
    let at = 0;
    return breaths.list(total, () => {
      const length = numberAt(bytes, at, where);
      if (length > bytes.length - at - 4) early();
      if (length > textBytesMax)
        fail("resource_exhausted", `${where} has a text of ${length} bytes, at most ${textBytesMax} are allowed`);
      at += 4 + length;
      breaths.spend(length / bytesPerValue);
      return decoder.decode(bytes.subarray(at - length, at));
    });
  }
  const width =
    widths[type] ?? fail("unimplemented", `${where} has values of the type ${type}, which are not supported`);
  if (bytes.length < width * total) early();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = {
    int32: (at: number) => (isUnsigned ? view.getUint32(at, true) : view.getInt32(at, true)),
    int64: (at: number) => Number(isUnsigned ? view.getBigUint64(at, true) : view.getBigInt64(at, true)),
    float: (at: number) => view.getFloat32(at, true),
    double: (at: number) => view.getFloat64(at, true),
  }[type as "int32" | "int64" | "float" | "double"];
  return breaths.list(total, (i) => read(i * width));
}

function numberAt(bytes: Uint8Array, at: number, where: string): number {
  if (at + 4 > bytes.length) fail("invalid_argument", `${where} is damaged: a page ends too early`);
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(at, true);
}
