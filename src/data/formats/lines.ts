// Lines of a byte stream with their positions, so that errors can name a line and an import can go on after one.

import { isUtf8 } from "node:buffer";
import { fail } from "../../core/errors.ts";

export interface Position {
  /** In bytes from the start of the source. */
  readonly offset: number;
  /** Lines before it. */
  readonly line: number;
}

export interface Line {
  /** Counts from 1. */
  readonly number: number;
  /** Without the line end. */
  readonly bytes: Uint8Array;
  /** Right behind it. */
  readonly next: Position;
}

/** A line is in memory as a whole. */
export const lineBytesMax = 32 << 20;
const newline = 0x0a;
const carriageReturn = 0x0d;

/** `from` must be where a line starts. The last line may lack its end. */
export async function* readLines(
  stream: AsyncIterable<Uint8Array>,
  from: Position,
  name: string,
): AsyncGenerator<Line> {
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  let { offset, line } = from;
  const emit = (last: Uint8Array, endBytes: number): Line => {
    const whole = pending.length === 0 ? last : Buffer.concat([...pending, last]);
    pending = [];
    pendingBytes = 0;
    offset += whole.byteLength + endBytes;
    line++;
    return { number: line, bytes: withoutReturn(withoutMark(whole, line)), next: { offset, line } };
  };
  for await (const piece of stream) {
    let start = 0;
    for (let end = piece.indexOf(newline); end >= 0; end = piece.indexOf(newline, start)) {
      yield emit(piece.subarray(start, end), 1);
      start = end + 1;
    }
    if (start < piece.byteLength) {
      pending.push(piece.subarray(start));
      pendingBytes += piece.byteLength - start;
    }
    if (pendingBytes > lineBytesMax)
      fail("resource_exhausted", `line ${line + 1} of ${name} is longer than ${lineBytesMax} bytes`);
  }
  if (pendingBytes > 0) yield emit(new Uint8Array(0), 0);
}

function withoutReturn(bytes: Uint8Array): Uint8Array {
  return bytes.at(-1) === carriageReturn ? bytes.subarray(0, -1) : bytes;
}

/** Some programs begin UTF-8 files with a byte order mark. */
export function withoutMark(bytes: Uint8Array, line: number): Uint8Array {
  return line === 1 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export function textOfLine({ bytes, number }: Line, name: string): string {
  if (!isUtf8(bytes))
    fail("invalid_argument", `line ${number} of ${name} is not valid UTF-8: convert the file to UTF-8`);
  return decoder.decode(bytes);
}
