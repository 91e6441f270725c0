// Reads protobuf fields from bytes of unknown origin: every length is checked against what is there, nesting is
// bounded by the callers' structure, and nothing is copied.

import { fail } from "../core/errors.ts";

export interface ProtoField {
  readonly field: number;
  /** Varints and fixed-width numbers. */
  readonly number: bigint;
  /** Length-delimited content; empty for numbers. */
  readonly bytes: Uint8Array;
  readonly wire: 0 | 1 | 2 | 5;
}

/** All fields of one message, in order. `what` names it in errors. */
export function* readFields(bytes: Uint8Array, what: string): Generator<ProtoField> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const cursor = { at: 0 };
  const empty = new Uint8Array(0);
  while (cursor.at < bytes.length) {
    const key = readVarint(bytes, cursor, what);
    const field = Number(key >> 3n);
    const wire = Number(key & 7n);
    if (wire === 0) yield { field, number: readVarint(bytes, cursor, what), bytes: empty, wire };
    else if (wire === 1)
      yield { field, number: view.getBigUint64(take(bytes, cursor, 8, what), true), bytes: empty, wire };
    else if (wire === 5)
      yield { field, number: BigInt(view.getUint32(take(bytes, cursor, 4, what), true)), bytes: empty, wire };
    else if (wire === 2) {
      const length = readVarint(bytes, cursor, what);
      if (length > BigInt(bytes.length)) truncated(what);
      const start = take(bytes, cursor, Number(length), what);
      yield { field, number: 0n, bytes: bytes.subarray(start, cursor.at), wire };
    } else fail("invalid_argument", `${what} is not valid protobuf: wire type ${wire}`);
  }
}

/** A repeated number, packed or not: appends to `into`. */
export function appendVarints(
  into: number[],
  { number, bytes, wire }: ProtoField,
  what: string,
  countMax: number,
): void {
  if (wire !== 2) into.push(Number(BigInt.asIntN(64, number)));
  const cursor = { at: 0 };
  while (cursor.at < bytes.length) into.push(Number(BigInt.asIntN(64, readVarint(bytes, cursor, what))));
  if (into.length > countMax) fail("resource_exhausted", `${what} lists more than ${countMax} numbers`);
}

function readVarint(bytes: Uint8Array, cursor: { at: number }, what: string): bigint {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = bytes[cursor.at++];
    if (byte === undefined) truncated(what);
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return BigInt.asUintN(64, value);
  }
  return fail("invalid_argument", `${what} is not valid protobuf: a number has more than ten bytes`);
}

function take(bytes: Uint8Array, cursor: { at: number }, count: number, what: string): number {
  const start = cursor.at;
  if (start + count > bytes.length) truncated(what);
  cursor.at = start + count;
  return start;
}

function truncated(what: string): never {
  fail("invalid_argument", `${what} ends too early: the file is truncated or is not ONNX`);
}
