// A small protobuf writer for the few messages that an ONNX graph needs. Reading is in protobuf.ts.

/** Appends protobuf fields. Large contents are copied once, when all is put together: weights are most of what is written. */
export class ProtoWriter {
  readonly #parts: Uint8Array[] = [];
  readonly #text = new TextEncoder();
  #bytes = 0;

  varint(field: number, value: number): void {
    this.#push([...varintBytes(BigInt(field << 3)), ...varintBytes(BigInt(value))]);
  }

  float(field: number, value: number): void {
    const bytes = new Uint8Array(Float32Array.of(value).buffer);
    this.#push([...varintBytes(BigInt((field << 3) | 5)), ...bytes]);
  }

  text(field: number, value: string): void {
    this.data(field, this.#text.encode(value));
  }

  data(field: number, bytes: Uint8Array): void {
    this.#push([...varintBytes(BigInt((field << 3) | 2)), ...varintBytes(BigInt(bytes.byteLength))]);
    this.#push(bytes);
  }

  message(field: number, write: (writer: ProtoWriter) => void): void {
    const inner = new ProtoWriter();
    write(inner);
    this.#push([...varintBytes(BigInt((field << 3) | 2)), ...varintBytes(BigInt(inner.#bytes))]);
    for (const part of inner.#parts) this.#push(part);
  }

  /** What was written, in pieces of which some are the caller's own. */
  get parts(): readonly Uint8Array[] {
    return this.#parts;
  }

  bytes(): Uint8Array {
    return joined(this.#parts, (bytes) => new Uint8Array(bytes));
  }

  #push(bytes: Uint8Array | number[]): void {
    const part = bytes instanceof Uint8Array ? bytes : Uint8Array.from(bytes);
    this.#parts.push(part);
    this.#bytes += part.byteLength;
  }
}

export function joined(parts: readonly Uint8Array[], allocate: (bytes: number) => Uint8Array): Uint8Array {
  const all = allocate(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.byteLength;
  }
  return all;
}

/** Negative numbers take ten bytes, as protobuf's int64 does. */
function varintBytes(value: bigint): number[] {
  let rest = BigInt.asUintN(64, value);
  const bytes: number[] = [];
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest === 0n ? low : low | 0x80);
  } while (rest !== 0n);
  return bytes;
}
