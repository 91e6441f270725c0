// What passes between the steps of a pipeline: shards of records, each its length and its bytes. A record is a row (a JSON
// object, as UTF-8) or a run of tokens. Steps that only move records about never look inside them.

import { fail, messageOf } from "../core/errors.ts";
import type { Sha256 } from "../core/ids.ts";
import type { Shard } from "../data/manifest.ts";

export type Format = "rows" | "tokens";

/** A field's value by its name; what a source has, and what steps add. */
export type Row = Readonly<Record<string, unknown>>;

/** Records that belong together, such as those that only validate; "all" where nobody has split anything. */
export interface Part {
  readonly name: string;
  readonly shards: readonly Shard[];
}

export interface TokenFacts {
  readonly vocabulary: number;
  /** Blob of the tokenizer.json; absent if the tokens came as numbers. */
  readonly tokenizer?: Sha256;
  /** The token that ends documents and fills what is left over. */
  readonly end?: number;
}

/** What a step made. Its text (canonical JSON) is what the next step's key is made of, so it says nothing of times and places. */
export interface Output {
  readonly format: Format;
  readonly parts: readonly Part[];
  /** The rows are pieces of one running text: nothing marks where one ends. */
  readonly running?: true;
  readonly tokens?: TokenFacts;
}

export const allPart = "all";

/** What a task makes in one go. Small, so that whoever is killed loses little; a longer record makes a longer shard. */
export const pieceBytesUsual = 2 << 20;
/** Of one record: rows are lines of sources, which are no longer. */
export const recordBytesMax = 48 << 20;
/** One bit for each is in memory while copies are looked for. */
export const recordsMax = 1_000_000_000;

/** Its length stands before each record. */
export const recordHeadBytes = 4;

/** Records one after another, taken as one shard. */
export class RecordWriter {
  #memory = new Uint8Array(1 << 16);
  #bytes = 0;
  #count = 0;

  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#count;
  }

  add(record: Uint8Array): void {
    if (record.byteLength > recordBytesMax)
      fail("resource_exhausted", `a record has ${record.byteLength} bytes, at most ${recordBytesMax} are allowed`);
    const end = this.#bytes + recordHeadBytes + record.byteLength;
    if (end > this.#memory.byteLength) {
      // What it had is given back at once.
      this.#memory = new Uint8Array(this.#memory.buffer.transfer(Math.max(end, this.#memory.byteLength * 2)));
    }
    new DataView(this.#memory.buffer).setUint32(this.#bytes, record.byteLength, true);
    this.#memory.set(record, this.#bytes + recordHeadBytes);
    this.#bytes = end;
    this.#count++;
  }

  /** The shard so far; the writer is empty afterwards. */
  take(): { readonly content: Uint8Array; readonly count: number } {
    const taken = { content: this.#memory.subarray(0, this.#bytes), count: this.#count };
    this.#memory = new Uint8Array(1 << 16);
    this.#bytes = 0;
    this.#count = 0;
    return taken;
  }
}

/** The records of a shard, as views of it. */
export function* recordsOf(content: Uint8Array): Generator<Uint8Array> {
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  for (let at = 0; at < content.byteLength; ) {
    if (at + recordHeadBytes > content.byteLength) fail("data_loss", "a shard of a pipeline ends within a record");
    const length = view.getUint32(at, true);
    const end = at + recordHeadBytes + length;
    if (end > content.byteLength) fail("data_loss", "a shard of a pipeline ends within a record");
    yield content.subarray(at + recordHeadBytes, end);
    at = end;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export function rowOf(record: Uint8Array): Row {
  return JSON.parse(decoder.decode(record)) as Row;
}

export function recordOfRow(row: Row): Uint8Array {
  return encoder.encode(JSON.stringify(row).toWellFormed());
}

/** A line that must be a JSON object. */
export function parseRow(text: string, where: string): Row {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    fail("invalid_argument", `${where} is not JSON: ${messageOf(thrown)}`, thrown);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value))
    fail("invalid_argument", `${where} is not a JSON object`);
  return value as Row;
}

/** The text in a field, or a sentence. */
export function textOf(row: Row, field: string, where: string): string {
  const value = row[field];
  if (typeof value === "string") return value;
  return fail(
    "invalid_argument",
    `${where}: a row has no text in its field "${field}"; it has ${Object.keys(row).slice(0, 10).join(", ") || "no fields"}`,
  );
}

export function tokenWidth({ vocabulary }: TokenFacts): 2 | 4 {
  return vocabulary <= 65_536 ? 2 : 4;
}

/** `end`, if there is one, stands behind them. */
export function recordOfTokens(tokens: ArrayLike<number>, width: 2 | 4, end?: number): Uint8Array {
  const length = tokens.length + (end === undefined ? 0 : 1);
  const stored = width === 2 ? new Uint16Array(length) : new Int32Array(length);
  stored.set(tokens);
  if (end !== undefined) stored[tokens.length] = end;
  return new Uint8Array(stored.buffer);
}

export function tokensOf(record: Uint8Array, width: 2 | 4): Uint16Array | Int32Array {
  // A record begins anywhere in its shard; typed arrays begin at multiples of their width.
  const aligned = new Uint8Array(record);
  return width === 2 ? new Uint16Array(aligned.buffer) : new Int32Array(aligned.buffer);
}

/** All shards, part after part. */
export function shardsOfOutput(output: Output): readonly Shard[] {
  return output.parts.flatMap((part) => part.shards);
}

export function countOf(output: Output): number {
  return shardsOfOutput(output).reduce((sum, shard) => sum + shard.count, 0);
}

export function bytesOf(output: Output): number {
  return shardsOfOutput(output).reduce((sum, shard) => sum + shard.bytes, 0);
}
