// A GGUF file: metadata and tensors of llama.cpp and its kin. Headers come from strangers; every length is checked
// before anything of that length is made, and tensors are read one by one.

import { stat } from "node:fs/promises";
import { fail } from "../../core/errors.ts";
import { elementCount, float32, type Shape, type Tensor } from "../../core/tensor.ts";
import { readRange } from "../files/safetensors.ts";
import { type StoredAs, storedAs } from "./blocks.ts";

export type GgufValue = string | number | boolean | bigint | readonly GgufValue[];

export interface GgufFile {
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  load(name: string): Promise<Tensor>;
}

export interface GgufTensor {
  /** Rows first, as everywhere with us. */
  readonly shape: Shape;
  readonly as: StoredAs;
  readonly start: number;
  readonly bytes: number;
}

/** Vocabularies of 260,000 tokens with merges take some 20 MB. */
const headerBytesMax = 256 << 20;
const firstRead = 4 << 20;
const [keysMax, tensorsMax, listMax, textMax, rankMax] = [10_000, 100_000, 4 << 20, 16 << 20, 4];

export async function openGguf(path: string): Promise<GgufFile> {
  const { size } = await stat(path).catch((thrown) => fail("not_found", `there is no file ${path}`, thrown));
  for (let length = firstRead; ; length *= 4) {
    const part = await readRange(path, 0, Math.min(size, length));
    const read = new HeaderReader(path, part, size).read();
    if (read !== "more")
      return {
        ...read,
        load: async (name) => {
          const tensor = read.tensors.get(name) ?? fail("not_found", `${path} has no tensor "${name}"`);
          const content = await readRange(path, tensor.start, tensor.start + tensor.bytes);
          const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
          return float32(tensor.shape, tensor.as.decode(view, elementCount(tensor.shape)));
        },
      };
    if (length >= size || length > headerBytesMax)
      fail("data_loss", `${path} ends within its header, or its header is longer than ${headerBytesMax} bytes`);
  }
}

/** Thrown where the header goes on beyond what was read; never leaves this file. */
class NeedsMore extends Error {}

class HeaderReader {
  readonly #path: string;
  readonly #part: Buffer;
  readonly #size: number;
  #at = 0;

  constructor(path: string, part: Buffer, size: number) {
    this.#path = path;
    this.#part = part;
    this.#size = size;
  }

  read(): Pick<GgufFile, "metadata" | "tensors"> | "more" {
    try {
      return this.#header();
    } catch (error) {
      if (error instanceof NeedsMore) return "more";
      throw error;
    }
  }

  #refuse(why: string): never {
    return fail("invalid_argument", `${this.#path} is not a usable GGUF file: ${why}`);
  }

  #take(bytes: number): number {
    const start = this.#at;
    if (start + bytes > this.#part.length) throw new NeedsMore();
    this.#at += bytes;
    return start;
  }

  #uint32(): number {
    return this.#part.readUInt32LE(this.#take(4));
  }

  #count(most: number, what: string): number {
    const count = this.#part.readBigUInt64LE(this.#take(8));
    return count <= BigInt(most) ? Number(count) : this.#refuse(`it claims ${count} ${what}`);
  }

  #text(): string {
    const length = this.#count(textMax, "bytes of text");
    const start = this.#take(length);
    return this.#part.toString("utf8", start, start + length);
  }

  #header(): Pick<GgufFile, "metadata" | "tensors"> {
    if (this.#part.toString("latin1", 0, 4) !== "GGUF") this.#refuse("it does not begin with GGUF");
    this.#take(4);
    const version = this.#uint32();
    if (version !== 2 && version !== 3) this.#refuse(`its version is ${version}, only 2 and 3 are read`);
    const tensorCount = this.#count(tensorsMax, "tensors");
    const keyCount = this.#count(keysMax, "keys");
    const metadata = new Map<string, GgufValue>();
    for (let i = 0; i < keyCount; i++) {
      const key = this.#text();
      if (metadata.has(key)) this.#refuse(`it has the key "${key.slice(0, 80)}" twice`);
      metadata.set(key, this.#value(this.#uint32(), 0));
    }
    const infos = Array.from({ length: tensorCount }, () => this.#tensor());
    const alignment = Number(metadata.get("general.alignment") ?? 32);
    if (!Number.isInteger(alignment) || alignment < 1 || alignment > 1 << 20)
      this.#refuse(`its alignment is ${alignment}`);
    const first = Math.ceil(this.#at / alignment) * alignment;
    const tensors = new Map<string, GgufTensor>();
    for (const { name, shape, as, offset } of infos) {
      const bytes = (elementCount(shape) / as.elements) * as.bytes;
      if ((shape.at(-1) as number) % as.elements !== 0 || first + offset + bytes > this.#size)
        this.#refuse(`tensor "${name.slice(0, 80)}" has a wrong shape or place`);
      if (tensors.has(name)) this.#refuse(`it has the tensor "${name.slice(0, 80)}" twice`);
      tensors.set(name, { shape, as, start: first + offset, bytes });
    }
    return { metadata, tensors };
  }

  #tensor(): { name: string; shape: Shape; as: StoredAs; offset: number } {
    const name = this.#text();
    const rank = this.#uint32();
    if (rank < 1 || rank > rankMax) this.#refuse(`tensor "${name.slice(0, 80)}" has ${rank} axes`);
    const sizes = Array.from({ length: rank }, () => this.#count(2 ** 34, `elements of tensor "${name.slice(0, 80)}"`));
    const as = storedAs(this.#uint32(), name);
    return { name, shape: sizes.reverse(), as, offset: this.#count(Number.MAX_SAFE_INTEGER, "bytes before a tensor") };
  }

  #value(type: number, depth: number): GgufValue {
    switch (type) {
      case 0:
        return this.#part.readUInt8(this.#take(1));
      case 1:
        return this.#part.readInt8(this.#take(1));
      case 2:
        return this.#part.readUInt16LE(this.#take(2));
      case 3:
        return this.#part.readInt16LE(this.#take(2));
      case 4:
        return this.#uint32();
      case 5:
        return this.#part.readInt32LE(this.#take(4));
      case 6:
        return this.#part.readFloatLE(this.#take(4));
      case 7:
        return this.#part.readUInt8(this.#take(1)) !== 0;
      case 8:
        return this.#text();
      case 9: {
        if (depth > 2) this.#refuse("its lists are nested too deeply");
        const kind = this.#uint32();
        const length = this.#count(listMax, "entries of a list");
        const list: GgufValue[] = [];
        for (let i = 0; i < length; i++) list.push(this.#value(kind, depth + 1));
        return list;
      }
      case 10:
        return this.#part.readBigUInt64LE(this.#take(8));
      case 11:
        return this.#part.readBigInt64LE(this.#take(8));
      case 12:
        return this.#part.readDoubleLE(this.#take(8));
      default:
        return this.#refuse(`a value is of the type ${type}`);
    }
  }
}
