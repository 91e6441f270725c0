// Thrift's compact protocol, in which Parquet writes what a file holds: structs become maps by field number. From bytes of
// unknown origin: every length is checked, depth and number of values are bounded.

import { fail } from "../../../core/errors.ts";

export type ThriftValue = number | bigint | boolean | Uint8Array | readonly ThriftValue[] | ThriftStruct;
export type ThriftStruct = ReadonlyMap<number, ThriftValue>;

const depthMax = 16;
/** Footers of files with thousands of columns and row groups have some hundred thousand. */
const valuesMax = 4_000_000;

export class ThriftReader {
  readonly #bytes: Uint8Array;
  readonly #name: string;
  #at: number;
  #values = 0;

  constructor(bytes: Uint8Array, name: string, start = 0) {
    this.#bytes = bytes;
    this.#name = name;
    this.#at = start;
  }

  get position(): number {
    return this.#at;
  }

  struct(depth = 0): ThriftStruct {
    if (depth > depthMax) this.#damaged("its description is nested too deep");
    const fields = new Map<number, ThriftValue>();
    let id = 0;
    for (;;) {
      const head = this.#byte();
      if (head === 0) return fields;
      id = head >> 4 === 0 ? this.#zigzag() : id + (head >> 4);
      const type = head & 15;
      fields.set(id, type === 1 || type === 2 ? type === 1 : this.#value(type, depth));
    }
  }

  #value(type: number, depth: number): ThriftValue {
    if (++this.#values > valuesMax) this.#damaged("its description has too many values");
    switch (type) {
      case 1:
      case 2:
        return this.#byte() === 1;
      case 3:
        return (this.#byte() << 24) >> 24;
      case 4:
      case 5:
        return this.#zigzag();
      case 6:
        return this.#zigzagLong();
      case 7:
        return new DataView(this.#take(8).slice().buffer).getFloat64(0, true);
      case 8:
        return this.#take(this.#varint());
      case 9:
      case 10:
        return this.#list(depth);
      case 12:
        return this.struct(depth + 1);
      default:
        return this.#damaged(`its description has a value of the unknown kind ${type}`);
    }
  }

  #list(depth: number): readonly ThriftValue[] {
    const head = this.#byte();
    const count = head >> 4 === 15 ? this.#varint() : head >> 4;
    // Each value takes a byte at least.
    if (count > this.#bytes.length - this.#at) this.#damaged("a list is longer than the file");
    const values: ThriftValue[] = [];
    for (let i = 0; i < count; i++) values.push(this.#value(head & 15, depth + 1));
    return values;
  }

  #byte(): number {
    return this.#bytes[this.#at++] ?? this.#damaged("its description ends too early");
  }

  #take(count: number): Uint8Array {
    if (count > this.#bytes.length - this.#at) this.#damaged("its description ends too early");
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }

  #varint(): number {
    return Number(this.#long());
  }

  #zigzag(): number {
    return Number(this.#zigzagLong());
  }

  #zigzagLong(): bigint {
    const value = this.#long();
    return (value >> 1n) ^ -(value & 1n);
  }

  #long(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#byte();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    return this.#damaged("a number has more than ten bytes");
  }

  #damaged(what: string): never {
    return fail("invalid_argument", `${this.#name} is damaged: ${what}`);
  }
}
