// Puts records into a drawn order, however many there are: each draws a number, shards are cut by ranges of these numbers, and
// each range is sorted in memory by itself. What is drawn depends on the seed and a record's place alone.

import { freeBytes } from "../../core/bytes.ts";
import { randomKey, randomUint32 } from "../../core/numbers/random.ts";
import type { Shard } from "../../data/manifest.ts";
import { type Kit, putShard, type StoredBlob } from "../kit.ts";
import type { Operator } from "../operator.ts";
import { type Output, type Part, RecordWriter, recordsOf } from "../records.ts";
import { fieldsOf, seedMax, whole } from "../settings.ts";

/** Pieces that are sorted at once. */
const bucketPieces = 2;

export const shuffle: Operator = {
  name: "shuffle",
  version: 1,
  reads: "one",
  read(given, where) {
    const fields = fieldsOf(given ?? {}, ["seed"], where);
    return { seed: whole(fields, "seed", where, 0, seedMax, 0) };
  },
  gives: ([format]) => format ?? "rows",
  async run({ settings, inputs, kit }) {
    const { running: _ended, ...input } = inputs[0] as Output;
    const parts: Part[] = [];
    for (const part of input.parts) parts.push(await shufflePart(part, settings["seed"] as number, kit));
    return { ...input, parts };
  },
};

async function shufflePart({ name, shards }: Part, seed: number, kit: Kit): Promise<Part> {
  const key = randomKey("pipeline shuffle", seed, name);
  const bytes = shards.reduce((sum, shard) => sum + shard.bytes, 0);
  const buckets = Math.max(1, Math.ceil(bytes / (bucketPieces * kit.pieceBytes)));
  const firsts: number[] = [];
  let first = 0;
  for (const shard of shards) {
    firsts.push(first);
    first += shard.count;
  }
  const cut = await kit.each(
    `cut ${name}`,
    shards.length,
    async (task) => {
      const shard = shards[task] as Shard;
      const read = await kit.blobs.get(shard.hash);
      const made = cutShard(read, firsts[task] as number, buckets, key);
      freeBytes(read);
      const stored = await kit.spill.put(made);
      freeBytes(made);
      return stored;
    },
    { bytesOf: (task) => shards[task]?.bytes ?? 0 },
  );
  const made = await kit.each(`sort ${name}`, buckets, (bucket) => sortBucket(bucket, buckets, cut, kit), {
    bytesOf: () => bytes / buckets,
  });
  return { name, shards: made.flat() };
}

const headBytes = 8;

/** Where each bucket begins (one number more than there are buckets), then the buckets: records with their draw before them. */
function cutShard(content: Uint8Array, first: number, buckets: number, key: ReturnType<typeof randomKey>): Uint8Array {
  const drawn: {
    readonly bucket: number;
    readonly draw: number;
    readonly index: number;
    readonly record: Uint8Array;
  }[] = [];
  let index = first;
  for (const record of recordsOf(content)) {
    const draw = randomUint32(key, index);
    drawn.push({ bucket: Math.floor((draw / 2 ** 32) * buckets), draw, index, record });
    index++;
  }
  drawn.sort((a, b) => a.bucket - b.bucket || a.index - b.index);
  const writer = new RecordWriter();
  const starts = new Uint32Array(buckets + 1);
  let bucket = 0;
  for (const one of drawn) {
    while (bucket < one.bucket) starts[++bucket] = writer.bytes;
    const framed = new Uint8Array(headBytes + one.record.byteLength);
    const view = new DataView(framed.buffer);
    view.setUint32(0, one.draw, true);
    view.setUint32(4, one.index, true);
    framed.set(one.record, headBytes);
    writer.add(framed);
  }
  while (bucket < buckets) starts[++bucket] = writer.bytes;
  const { content: cut } = writer.take();
  const all = Buffer.concat([new Uint8Array(starts.buffer), cut]);
  freeBytes(cut);
  return all;
}

async function sortBucket(bucket: number, buckets: number, cut: readonly StoredBlob[], kit: Kit): Promise<Shard[]> {
  const drawn: { readonly draw: number; readonly index: number; readonly record: Uint8Array }[] = [];
  const recordsBegin = (buckets + 1) * 4;
  for (const { hash } of cut) {
    const ends = kit.spill.range(hash, bucket * 4, 8).slice();
    const [start, end] = new Uint32Array(ends.buffer) as unknown as [number, number];
    if (start === end) continue;
    for (const framed of recordsOf(kit.spill.range(hash, recordsBegin + start, end - start))) {
      const view = new DataView(framed.buffer, framed.byteOffset, headBytes);
      drawn.push({
        draw: view.getUint32(0, true),
        index: view.getUint32(4, true),
        record: framed.subarray(headBytes),
      });
    }
  }
  drawn.sort((a, b) => a.draw - b.draw || a.index - b.index);
  const writer = new RecordWriter();
  for (const { record } of drawn) writer.add(record);
  const { content, count } = writer.take();
  return putShard(kit.blobs, content, count);
}
