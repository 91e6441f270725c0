// gRPC's framing of messages on a stream: a byte that says "not compressed", four of length, the message. Tensors are
// most of what travels, so large byte fields are written from where they lie and read into the place where they stay.

import { type DescField, type DescMessage, type Message, ScalarType, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { fail } from "../../core/errors.ts";
import { messageBytesMax } from "../network.ts";

export const prefixBytes = 5;
/** Smaller fields are cheaper to copy than to write apart. */
const apartBytesMin = 4 << 10;
/** Tensors end their message: one that ends on a multiple of this has its numbers where they can be read in place. */
const alignmentBytes = 8;

type Apart = { readonly field: DescField & { fieldKind: "scalar" | "message" }; readonly value: unknown };

/** The pieces of one frame, to be written one after the other. */
export function encodeFrame(schema: DescMessage, message: Message): Uint8Array[] {
  const [head, ...rest] = piecesOf(schema, message) as [Uint8Array, ...Uint8Array[]];
  const bytes = rest.reduce((sum, piece) => sum + piece.byteLength, head.byteLength);
  if (bytes > messageBytesMax) fail("resource_exhausted", `a message of ${bytes} bytes is above ${messageBytesMax}`);
  const first = new Uint8Array(prefixBytes + head.byteLength);
  new DataView(first.buffer).setUint32(1, bytes);
  first.set(head, prefixBytes);
  return [first, ...rest];
}

function piecesOf(schema: DescMessage, message: Message): Uint8Array[] {
  const apart = fieldApart(schema, message);
  if (apart === undefined) return [toBinary(schema, message)];
  const { field, value } = apart;
  const inner =
    field.fieldKind === "message" ? piecesOf(field.message, value as Message) : [value as Uint8Array<ArrayBufferLike>];
  const length = inner.reduce((sum, piece) => sum + piece.byteLength, 0);
  // A reader takes fields in any order.
  const start = new BinaryWriter()
    .raw(toBinary(schema, without(message, field)))
    .tag(field.number, WireType.LengthDelimited)
    .uint32(length);
  const [first, ...rest] = inner as [Uint8Array, ...Uint8Array[]];
  return field.fieldKind === "message" ? [start.raw(first).finish(), ...rest] : [start.finish(), first];
}

/** The field that is large bytes, or leads to them. */
function fieldApart(schema: DescMessage, message: Message): Apart | undefined {
  for (const field of candidatesOf(schema)) {
    const value = fieldValue(message, field);
    if (value === undefined) continue;
    if (field.fieldKind === "scalar") {
      if ((value as Uint8Array).byteLength >= apartBytesMin) return { field, value };
    } else if (fieldApart(field.message, value as Message) !== undefined) return { field, value };
  }
  return undefined;
}

const candidates = new WeakMap<DescMessage, readonly Apart["field"][]>();

/** Fields that may hold bytes: found once per type, since most have none. */
function candidatesOf(schema: DescMessage): readonly Apart["field"][] {
  const known = candidates.get(schema);
  if (known !== undefined) return known;
  // Set first: types may contain themselves.
  candidates.set(schema, []);
  const found: Apart["field"][] = [];
  for (const field of schema.fields) {
    if (field.fieldKind === "scalar" && field.scalar === ScalarType.BYTES) found.push(field);
    if (field.fieldKind === "message" && candidatesOf(field.message).length > 0) found.push(field);
  }
  candidates.set(schema, found);
  return found;
}

function fieldValue(message: Message, field: DescField): unknown {
  const values = message as unknown as Record<string, unknown>;
  if (field.oneof === undefined) return values[field.localName];
  const chosen = values[field.oneof.localName] as { case?: string; value?: unknown };
  return chosen.case === field.localName ? chosen.value : undefined;
}

function without(message: Message, field: DescField): Message {
  if (field.oneof !== undefined) return { ...message, [field.oneof.localName]: { case: undefined } } as Message;
  return { ...message, [field.localName]: field.fieldKind === "scalar" ? new Uint8Array(0) : undefined } as Message;
}

/** Cuts what arrives into messages, each in one piece. */
export class FrameReader {
  readonly #take: (message: Uint8Array) => void;
  readonly #prefix = new Uint8Array(prefixBytes);
  #prefixFilled = 0;
  #body: Uint8Array | undefined;
  #filled = 0;

  constructor(take: (message: Uint8Array) => void) {
    this.#take = take;
  }

  /** True between messages. */
  get isBetween(): boolean {
    return this.#prefixFilled === 0;
  }

  push(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.byteLength; ) {
      if (this.#prefixFilled < prefixBytes) at = this.#readPrefix(chunk, at);
      if (this.#prefixFilled === prefixBytes) at = this.#readBody(chunk, at);
    }
  }

  #readPrefix(chunk: Uint8Array, at: number): number {
    const count = Math.min(prefixBytes - this.#prefixFilled, chunk.byteLength - at);
    this.#prefix.set(chunk.subarray(at, at + count), this.#prefixFilled);
    this.#prefixFilled += count;
    return at + count;
  }

  #readBody(chunk: Uint8Array, at: number): number {
    const length = this.#length();
    if (this.#body === undefined && chunk.byteLength - at >= length) {
      // Plain bytes, whatever Node hands out: `slice` of a Buffer would not copy.
      this.#finish(new Uint8Array(chunk.buffer, chunk.byteOffset + at, length));
      return at + length;
    }
    this.#body ??= bodyOf(length);
    const count = Math.min(length - this.#filled, chunk.byteLength - at);
    this.#body.set(chunk.subarray(at, at + count), this.#filled);
    this.#filled += count;
    if (this.#filled === length) this.#finish(this.#body);
    return at + count;
  }

  #length(): number {
    if (this.#prefix[0] !== 0) fail("unimplemented", "messages on this stream must not be compressed");
    const length = new DataView(this.#prefix.buffer).getUint32(1);
    if (length > messageBytesMax)
      fail("resource_exhausted", `a message of ${length} bytes is above ${messageBytesMax}`);
    return length;
  }

  #finish(message: Uint8Array): void {
    this.#prefixFilled = 0;
    this.#body = undefined;
    this.#filled = 0;
    this.#take(message);
  }
}

function bodyOf(length: number): Uint8Array {
  const start = (alignmentBytes - (length % alignmentBytes)) % alignmentBytes;
  return new Uint8Array(new ArrayBuffer(start + length), start);
}
