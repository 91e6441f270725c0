// Writes datasets: samples go in one after another, content-addressed shards and a manifest come out. Memory
// holds a few shards at most. A build that was interrupted goes on from its last checkpoint, and shards that
// are stored already are not stored again.

import { assert } from "../core/assert.ts";
import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import { type TensorData, tensorBytes } from "../core/tensor.ts";
import type { BlobSpace } from "../store/blobs/blob-store.ts";
import {
  documentEnd,
  type Field,
  manifestText,
  type Origin,
  parseManifest,
  type Shard,
  type Splits,
  shardBytesMax,
  type TensorsManifest,
  type TextManifest,
  type TokensManifest,
  type TokenType,
  tokenBytes,
} from "./manifest.ts";

/** What a build needs of a blob store. */
export type BlobSink = Pick<BlobSpace, "put" | "size">;

/** Large enough to be worth a request, small enough to fetch for a few samples. */
export const shardBytesDefault = 8 << 20;
/** Shards being stored while the next one fills. */
const storingMax = 2;

/** Where an interrupted build goes on: all units before it are in `shards`, by column. JSON as it stands. */
export interface BuildCheckpoint {
  readonly units: number;
  readonly shards: readonly (readonly Shard[])[];
}

export interface BuildOptions {
  readonly blobs: BlobSink;
  readonly shardBytes?: number;
  readonly resume?: BuildCheckpoint;
  /** Called when all shards of the checkpoint are stored. */
  readonly onCheckpoint?: (checkpoint: BuildCheckpoint) => void;
}

export interface Finish {
  readonly splits?: Splits;
  readonly origin?: Origin;
}

export type FieldSpec = Pick<Field, "name" | "dtype" | "shape" | "scale" | "classes">;

export interface TensorsBuilder {
  /** Samples given so far, those of the checkpoint included. */
  readonly samples: number;
  /** One or more samples; each field's values lie one sample after another. */
  add(values: Readonly<Record<string, TensorData>>): Promise<void>;
  finish(options?: Finish): Promise<TensorsManifest>;
}

export function buildTensors(fields: readonly FieldSpec[], options: BuildOptions): TensorsBuilder {
  const sampleBytes = fields.map((field) => tensorBytes(field.dtype, field.shape));
  const shardBytes = options.shardBytes ?? shardBytesDefault;
  // All fields are cut at the same samples, so that a checkpoint is a number of samples.
  const chunk = Math.max(1, Math.floor(shardBytes / Math.max(...sampleBytes)));
  const columns = openColumns(
    sampleBytes.map((bytes) => bytes * chunk),
    options,
  );
  return {
    get samples() {
      return columns.units;
    },
    async add(values) {
      const contents = fields.map((field, i) => fieldBytes(field, values[field.name], sampleBytes[i] as number));
      const count = (contents[0] as Uint8Array).byteLength / (sampleBytes[0] as number);
      if (contents.some((bytes, i) => bytes.byteLength !== count * (sampleBytes[i] as number)))
        fail(
          "invalid_argument",
          `the fields ${fields.map((field) => field.name).join(", ")} differ in their number of samples`,
        );
      for (let done = 0; done < count; ) {
        const taken = Math.min(count - done, chunk - columns.pending);
        const pieces = contents.map((bytes, i) =>
          bytes.subarray(done * (sampleBytes[i] as number), (done + taken) * (sampleBytes[i] as number)),
        );
        columns.append(pieces, taken);
        done += taken;
        if (columns.pending === chunk) await columns.flush();
      }
    },
    async finish(finish = {}) {
      const shards = await columns.finish();
      if (columns.units === 0) fail("invalid_argument", "the source has no samples: nothing to build a dataset from");
      const described = fields.map(({ name, dtype, shape, scale, classes }, i) => {
        const optional = { ...(scale === undefined ? {} : { scale }), ...(classes ? { classes } : {}) };
        return { name, dtype, shape, ...optional, shards: shards[i] as Shard[] };
      });
      return checked({
        version: 1,
        kind: "tensors",
        samples: columns.units,
        chunk,
        fields: described,
        ...common(finish),
      });
    },
  };
}

function fieldBytes(field: FieldSpec, data: TensorData | undefined, sampleBytes: number): Uint8Array {
  if (data === undefined) fail("invalid_argument", `the samples have no values for the field "${field.name}"`);
  if (data.byteLength % sampleBytes !== 0)
    fail(
      "invalid_argument",
      `${data.byteLength} bytes are no whole samples of "${field.name}" with shape [${field.shape}]`,
    );
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

export interface TokensBuilder {
  readonly tokens: number;
  add(tokens: ArrayLike<number>): Promise<void>;
  finish(options?: Finish & { tokenizer?: Sha256 }): Promise<TokensManifest>;
}

export function buildTokens(vocabulary: number, options: BuildOptions): TokensBuilder {
  const tokenType: TokenType = vocabulary <= 65_536 ? "uint16" : "int32";
  const width = tokenBytes(tokenType);
  const shardTokens = Math.floor((options.shardBytes ?? shardBytesDefault) / width);
  const columns = openColumns([shardTokens * width], options);
  return {
    get tokens() {
      return columns.units;
    },
    async add(tokens) {
      for (let i = 0; i < tokens.length; i++)
        if (!((tokens[i] as number) >= 0 && (tokens[i] as number) < vocabulary))
          fail("invalid_argument", `token ${tokens[i]} is outside the vocabulary of ${vocabulary}`);
      const stored = tokenType === "uint16" ? Uint16Array.from(tokens) : Int32Array.from(tokens);
      for (let done = 0; done < stored.length; ) {
        const taken = Math.min(stored.length - done, shardTokens - columns.pending);
        columns.append([new Uint8Array(stored.buffer, done * width, taken * width)], taken);
        done += taken;
        if (columns.pending === shardTokens) await columns.flush();
      }
    },
    async finish({ tokenizer, ...finish } = {}) {
      const [shards] = await columns.finish();
      if (columns.units < 2) fail("invalid_argument", "the source has fewer than two tokens: nothing to learn from");
      const named = tokenizer === undefined ? {} : { tokenizer };
      const base = { version: 1, kind: "tokens", tokens: columns.units, tokenType, vocabulary } as const;
      return checked({ ...base, ...named, shards: shards as Shard[], ...common(finish) });
    },
  };
}

export interface TextBuilder {
  readonly documents: number;
  /** One document as UTF-8 that has been validated. */
  add(document: Uint8Array): Promise<void>;
  finish(options?: Finish): Promise<TextManifest>;
}

export function buildText(running: boolean, options: BuildOptions): TextBuilder {
  const shardBytes = options.shardBytes ?? shardBytesDefault;
  const columns = openColumns([shardBytes], options);
  const end = Uint8Array.of(documentEnd);
  return {
    get documents() {
      return columns.units;
    },
    async add(document) {
      if (document.byteLength >= shardBytesMax)
        fail(
          "resource_exhausted",
          `a document has ${document.byteLength} bytes, at most ${shardBytesMax - 1} are allowed`,
        );
      if (columns.pending > 0 && columns.pendingBytes + document.byteLength + 1 > shardBytes) await columns.flush();
      columns.append([document], 0);
      columns.append([end], 1);
    },
    async finish(finish = {}) {
      const [shards] = await columns.finish();
      if (columns.units === 0) fail("invalid_argument", "the source has no text: nothing to build a dataset from");
      const base = { version: 1, kind: "text", documents: columns.units, running } as const;
      return checked({ ...base, shards: shards as Shard[], ...common(finish) });
    },
  };
}

function common({ splits = {}, origin }: Finish): Finish & { splits: Splits } {
  return origin ? { splits, origin } : { splits };
}

/** What we write must be readable by everyone: the manifest passes its own parser. */
function checked<M extends TensorsManifest | TokensManifest | TextManifest>(manifest: M): M {
  return parseManifest(manifestText(manifest)) as M;
}

/** Parallel columns of bytes that are cut into shards together. */
function openColumns(capacities: readonly number[], options: BuildOptions) {
  const { blobs, resume, onCheckpoint } = options;
  const shards: Shard[][] = capacities.map((_, i) => [...(resume?.shards[i] ?? [])]);
  const buffers = capacities.map((capacity) => openBuffer(capacity));
  const storing: Promise<void>[] = [];
  let pending = 0;
  let units = resume?.units ?? 0;

  async function settle(most: number): Promise<void> {
    while (storing.length > most) await storing.shift();
  }

  async function flush(): Promise<void> {
    if (pending === 0) return;
    const contents = buffers.map((buffer) => buffer.take());
    const count = pending;
    pending = 0;
    const cut = contents.map((content): Shard => ({ hash: sha256(content), bytes: content.byteLength, count }));
    cut.forEach((shard, i) => {
      shards[i]?.push(shard);
    });
    const checkpoint = { units, shards: shards.map((list) => [...list]) };
    const stored = Promise.all(cut.map(({ hash }, i) => store(blobs, hash, contents[i] as Uint8Array))).then(() =>
      onCheckpoint?.(checkpoint),
    );
    // Awaited in order by settle; a failure must not count as unhandled before that.
    stored.catch(() => {});
    storing.push(stored);
    await settle(storingMax - 1);
  }

  return {
    get units() {
      return units;
    },
    /** Units since the last cut. */
    get pending() {
      return pending;
    },
    get pendingBytes() {
      return buffers.reduce((sum, buffer) => sum + buffer.bytes, 0);
    },
    append(pieces: readonly Uint8Array[], count: number): void {
      assert(pieces.length === buffers.length, "one piece for each column");
      pieces.forEach((piece, i) => {
        buffers[i]?.append(piece);
      });
      pending += count;
      units += count;
    },
    flush,
    async finish(): Promise<Shard[][]> {
      await flush();
      await settle(0);
      return shards;
    },
  };
}

async function store(blobs: BlobSink, hash: Sha256, content: Uint8Array): Promise<void> {
  if ((await blobs.size(hash)) === content.byteLength) return;
  await blobs.put(hash, content, content.byteLength);
}

/** Bytes that grow up to about `capacity`; taking them hands the memory over. */
function openBuffer(capacity: number) {
  const startBytes = Math.min(capacity, 1 << 16);
  let memory = new Uint8Array(startBytes);
  let bytes = 0;
  return {
    get bytes() {
      return bytes;
    },
    append(piece: Uint8Array): void {
      if (bytes + piece.byteLength > memory.byteLength) {
        const grown = new Uint8Array(Math.max(bytes + piece.byteLength, Math.min(capacity, memory.byteLength * 2)));
        grown.set(memory.subarray(0, bytes));
        memory = grown;
      }
      memory.set(piece, bytes);
      bytes += piece.byteLength;
    },
    take(): Uint8Array {
      const taken = memory.subarray(0, bytes);
      memory = new Uint8Array(startBytes);
      bytes = 0;
      return taken;
    },
  };
}
