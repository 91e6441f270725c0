// Plain text, cut at line ends into pieces of some kilobytes: together they are the text, byte for byte.

import { isUtf8 } from "node:buffer";
import { fail } from "../../core/errors.ts";
import { type Position, withoutMark } from "./lines.ts";

export interface TextPiece {
  readonly bytes: Uint8Array;
  readonly next: Position;
}

/** Small enough that a split by ratio or hash is fair, large enough that words at the edges do not matter. */
const pieceBytes = 8 << 10;
/** A piece without any line end is cut between characters at this length. */
const pieceBytesMax = 1 << 20;
const newline = 0x0a;

export async function* readPieces(
  stream: AsyncIterable<Uint8Array>,
  from: Position,
  name: string,
): AsyncGenerator<TextPiece> {
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  let wantedBytes = pieceBytes;
  let { offset, line } = from;
  const taken = (): Uint8Array => {
    const whole = pending.length === 1 ? (pending[0] as Uint8Array) : Buffer.concat(pending);
    pending = [];
    return whole;
  };
  const emit = (bytes: Uint8Array): TextPiece => {
    const first = offset === 0 ? 1 : 2;
    if (!isUtf8(bytes))
      fail("invalid_argument", `${name} is not valid UTF-8 ${placeOf(bytes, offset)}: convert the file to UTF-8`);
    offset += bytes.byteLength;
    line++;
    return { bytes: withoutMark(bytes, first), next: { offset, line } };
  };
  for await (const chunk of stream) {
    pending.push(chunk);
    pendingBytes += chunk.byteLength;
    if (pendingBytes < wantedBytes) continue;
    let content = taken();
    for (let cut = cutOf(content); cut > 0; cut = cutOf(content)) {
      yield emit(content.subarray(0, cut));
      content = content.subarray(cut);
    }
    pending.push(content);
    pendingBytes = content.byteLength;
    // Twice as much before the next look: a long line in tiny chunks must not be joined again with each of them.
    wantedBytes = Math.max(pieceBytes, pendingBytes * 2);
  }
  let rest = taken();
  for (let cut = cutOf(rest); cut > 0; cut = cutOf(rest)) {
    yield emit(rest.subarray(0, cut));
    rest = rest.subarray(cut);
  }
  if (rest.byteLength > 0) yield emit(rest);
}

/** Where to cut, or 0 if more bytes are needed to tell. */
function cutOf(content: Uint8Array): number {
  if (content.byteLength < pieceBytes) return 0;
  const end = content.indexOf(newline, pieceBytes - 1);
  if (end >= 0 && end < pieceBytesMax) return end + 1;
  if (content.byteLength < pieceBytesMax + 4) return 0;
  let cut = pieceBytesMax;
  // Bytes 10xxxxxx continue a character.
  while (cut > pieceBytesMax - 4 && ((content[cut] as number) & 0xc0) === 0x80) cut--;
  return cut;
}

function placeOf(bytes: Uint8Array, offset: number): string {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let valid = 0;
  // By halves: the longest valid beginning, which may end inside a character.
  for (let step = bytes.byteLength; step >= 1; step = Math.floor(step / 2)) {
    while (valid + step <= bytes.byteLength && isValidStart(decoder, bytes.subarray(0, valid + step))) valid += step;
  }
  return `at byte ${offset + valid}`;
}

function isValidStart(decoder: TextDecoder, bytes: Uint8Array): boolean {
  try {
    decoder.decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  } finally {
    // A fatal decoder that is told to end forgets what it had.
    try {
      decoder.decode();
    } catch {}
  }
}
