// A page may hold millions of values: whoever reads one lets others have their turn, whatever it is packed and encoded as.

import assert from "node:assert/strict";
import { it } from "node:test";
import { gzipSync } from "node:zlib";
import type { Chunk, PhysicalType } from "./metadata.ts";
import { readChunk } from "./pages.ts";

const rows = 400_000;

/** Numbers as Thrift's compact protocol writes them. */
function varint(value: number): number[] {
  const bytes: number[] = [];
  for (let left = value; ; left = Math.floor(left / 128)) {
    bytes.push((left % 128) + (left >= 128 ? 128 : 0));
    if (left < 128) return bytes;
  }
}
const zigzag = (value: number) => varint(value * 2);

/** A column of one page, and before it the dictionary if there is one. `form`: of the values, plain or by a dictionary. */
function page(kind: 0 | 2, packed: Uint8Array, size: number, total: number, form: 0 | 8): Uint8Array {
  // Fields follow their predecessor by the upper half of the byte; 5 is a number, 12 a structure.
  const facts = [0x15, ...zigzag(total), 0x15, ...zigzag(form), 0];
  const place = kind === 0 ? 0x2c : 0x4c;
  const head = [0x15, ...zigzag(kind), 0x15, ...zigzag(size), 0x15, ...zigzag(packed.length), place, ...facts, 0];
  return Buffer.concat([Buffer.from(head), packed]);
}

/** Snappy of equal bytes: one literal, then copies of 64 bytes each. */
function snappyOf(size: number): Uint8Array {
  const copies = Math.ceil((size - 64) / 64);
  const head = Buffer.from([...varint(64 + copies * 64), 60 << 2, 63]);
  const copy = Buffer.from([(63 << 2) | 2, 64, 0]);
  return Buffer.concat([head, Buffer.alloc(64, 1), ...Array.from({ length: copies }, () => copy)]);
}

const texts = Buffer.concat(Array.from({ length: rows }, () => Buffer.from([2, 0, 0, 0, 0x68, 0x69])));
const floats = Buffer.from(Float32Array.from({ length: rows }, (_, i) => i).buffer);
const dictionary = page(2, Buffer.from(Int32Array.of(7, 9).buffer), 8, 2, 0);
/** Bit-packed groups of eight numbers of one bit each: 0, 1, 0, 1 ... */
const groups = Buffer.concat([Buffer.from([1, ...varint((rows / 8) * 2 + 1)]), Buffer.alloc(rows / 8, 0b10101010)]);
const snappy = snappyOf(rows * 4);

const columns: Readonly<Record<string, { type: PhysicalType; codec?: number; bytes: Uint8Array; second: unknown }>> = {
  "plain numbers": { type: "float", bytes: page(0, floats, floats.length, rows, 0), second: 1 },
  "packed numbers": { type: "float", codec: 2, bytes: page(0, gzipSync(floats), floats.length, rows, 0), second: 1 },
  "numbers packed by Snappy": {
    type: "int32",
    codec: 1,
    bytes: page(0, snappy, rows * 4, rows, 0),
    second: 0x01010101,
  },
  texts: { type: "bytes", bytes: page(0, texts, texts.length, rows, 0), second: "hi" },
  "numbers by a dictionary": {
    ...{ type: "int32" as const, second: 9 },
    bytes: Buffer.concat([dictionary, page(0, groups, groups.length, rows, 8)]),
  },
};

for (const [what, { type, codec = 0, bytes, second }] of Object.entries(columns))
  it(`${what} of one page do not hold the thread`, async () => {
    const column = {
      name: "x",
      type,
      optional: false,
      isText: type === "bytes",
      isUnsigned: false,
      refused: undefined,
    };
    const chunk: Chunk = { column, codec, values: rows, offset: 4, bytes: bytes.length };
    const held: number[] = [];
    // Garbage of other tests is collected on this thread too: it does not fall into all three.
    for (let i = 0; i < 3; i++) {
      const pauses = watchTurns();
      const values = await readChunk(bytes, chunk, rows, "a file");
      const { turns, longestMs } = pauses();
      assert.equal(values.length, rows);
      assert.equal(values[1], second);
      assert.ok(turns >= rows / 10_000, `others had ${turns} turns`);
      held.push(longestMs);
    }
    assert.ok(Math.min(...held) < 50, `the thread was held for ${held.join(", ")} ms`);
  });

/** Counts the turns of the loop from now on, and the most CPU time between two of them. */
function watchTurns(): () => { readonly turns: number; readonly longestMs: number } {
  let [turns, longestMs, isOver] = [0, 0, false];
  let last = process.threadCpuUsage();
  const look = () => {
    const { user, system } = process.threadCpuUsage(last);
    last = process.threadCpuUsage();
    longestMs = Math.max(longestMs, (user + system) / 1000);
    turns++;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  return () => {
    isOver = true;
    return { turns, longestMs };
  };
}
