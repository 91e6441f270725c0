// A dataset as records: documents and samples become rows, a token stream is cut into runs of a context's length. For datasets
// that a network has, and for files that only the importers read.

import { fail } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import { tensorBytes } from "../../core/tensor.ts";
import { readSamples } from "../../data/batches.ts";
import { readDocuments, textOfDocument } from "../../data/documents.ts";
import type { Manifest, Shard, TensorsManifest, TextManifest, TokensManifest } from "../../data/manifest.ts";
import { ruleOf, splitList, viewSplit } from "../../data/order.ts";
import { type FetchBlob, fetchVerified, openShardCache } from "../../data/shard-cache.ts";
import { type Kit, putShard } from "../kit.ts";
import { type Output, RecordWriter, type Row, recordOfRow, recordOfTokens, tokenWidth } from "../records.ts";

export interface ManifestSource {
  readonly manifest: Manifest;
  readonly fetchBlob: FetchBlob;
  /** "all" for everything. */
  readonly split: string;
  /** Of a token stream: tokens of one run. */
  readonly context?: number;
  /** Before the names of stages, where a step reads several. */
  readonly stage?: string;
}

/** Numbers as JSON take several times the room that they have in a shard. */
const samplesBytes = 256 << 10;
const cacheBytesMax = 32 << 20;

/** Its records, without parts; `running` and `tokens` as the manifest has them. */
export async function recordsOfManifest(
  source: ManifestSource,
  kit: Kit,
): Promise<Omit<Output, "parts"> & { shards: Shard[] }> {
  const { manifest } = source;
  switch (manifest.kind) {
    case "text":
      return {
        format: "rows",
        ...(manifest.running && { running: true as const }),
        shards: await textRows(source, manifest, kit),
      };
    case "tensors":
      return { format: "rows", shards: await sampleRows(source, manifest, kit) };
    case "tokens": {
      const { vocabulary, tokenizer } = manifest;
      const shards = await tokenRuns(source, manifest, kit);
      return { format: "tokens", tokens: { vocabulary, ...(tokenizer && { tokenizer }) }, shards };
    }
  }
}

/** Which units belong to the split, by their number. */
async function membersOf({ manifest, split, fetchBlob }: ManifestSource): Promise<(index: number) => boolean> {
  const rule = ruleOf(manifest, split);
  if (rule.kind === "range") return (index) => index >= rule.start && index < rule.end;
  const content = rule.kind === "list" ? await fetchVerified(fetchBlob, rule.hash, rule.count * 4) : undefined;
  const units = manifest.kind === "text" ? manifest.documents : (manifest as TensorsManifest).samples;
  const members = content && rule.kind === "list" ? splitList(content, rule, units) : undefined;
  const view = viewSplit({ manifest, split, members });
  const chosen = new Uint8Array(Math.ceil(units / 8));
  for (let place = 0; place < view.samples; place++) {
    const index = view.at(place);
    chosen[index >>> 3] = (chosen[index >>> 3] as number) | (1 << (index & 7));
  }
  return (index) => (((chosen[index >>> 3] as number) >>> (index & 7)) & 1) === 1;
}

async function textRows(source: ManifestSource, manifest: TextManifest, kit: Kit): Promise<Shard[]> {
  const isMember = await membersOf(source);
  const firsts: number[] = [];
  let first = 0;
  for (const shard of manifest.shards) {
    firsts.push(first);
    first += shard.count;
  }
  const made = await kit.each(
    `${source.stage ?? ""}documents`,
    manifest.shards.length,
    async (task) => {
      const start = firsts[task] as number;
      const end = start + (manifest.shards[task] as Shard).count;
      const shards: Shard[] = [];
      const writer = new RecordWriter();
      const flush = async () => {
        const { content, count } = writer.take();
        shards.push(...(await putShard(kit.blobs, content, count)));
      };
      for await (const document of readDocuments(manifest, source.fetchBlob, start, end)) {
        if (!isMember(document.index)) continue;
        writer.add(recordOfRow({ text: textOfDocument(document) }));
        if (writer.bytes >= kit.pieceBytes) await flush();
      }
      await flush();
      return shards;
    },
    { bytesOf: (task) => manifest.shards[task]?.bytes ?? 0 },
  );
  return made.flat();
}

async function sampleRows(source: ManifestSource, manifest: TensorsManifest, kit: Kit): Promise<Shard[]> {
  const isMember = await membersOf(source);
  const { samples, fields } = manifest;
  const sampleBytes = fields.reduce((sum, { dtype, shape }) => sum + tensorBytes(dtype, shape), 0);
  const atOnce = Math.max(1, Math.floor(samplesBytes / sampleBytes));
  const cache = openShardCache({ fetchBlob: source.fetchBlob, cacheBytesMax });
  const made = await kit.each(
    `${source.stage ?? ""}samples`,
    Math.ceil(samples / atOnce),
    async (task) => {
      const start = task * atOnce;
      const indices = Array.from({ length: Math.min(atOnce, samples - start) }, (_, i) => start + i).filter(isMember);
      if (indices.length === 0) return [];
      const columns: [string, Tensor, readonly string[] | undefined][] = [];
      for (const { name, classes } of fields)
        columns.push([name, await readSamples(manifest, name, indices, cache), classes]);
      const writer = new RecordWriter();
      for (let i = 0; i < indices.length; i++) writer.add(recordOfRow(rowOfSample(columns, i)));
      const { content, count } = writer.take();
      return putShard(kit.blobs, content, count);
    },
    { bytesOf: () => atOnce * sampleBytes },
  );
  return made.flat();
}

function rowOfSample(columns: readonly [string, Tensor, readonly string[] | undefined][], sample: number): Row {
  return Object.fromEntries(
    columns.map(([name, { shape, data }, classes]) => {
      const inner = shape.slice(1);
      const size = inner.reduce((product, length) => product * length, 1);
      const values = Array.from((data as Float32Array).subarray(sample * size, (sample + 1) * size));
      const value = nested(values, inner);
      return [name, classes && typeof value === "number" ? (classes[value] ?? value) : value];
    }),
  );
}

function nested(values: readonly number[], shape: readonly number[]): unknown {
  const [length, ...rest] = shape;
  if (length === undefined) return values[0];
  const size = values.length / length;
  return Array.from({ length }, (_, i) => nested(values.slice(i * size, (i + 1) * size), rest));
}

async function tokenRuns(source: ManifestSource, manifest: TokensManifest, kit: Kit): Promise<Shard[]> {
  const { context } = source;
  if (context === undefined) fail("invalid_argument", "a token stream needs `context`: how many tokens make a record");
  const rule = ruleOf(manifest, source.split);
  if (rule.kind === "list")
    fail("unimplemented", `the split ${source.split} of a token stream is a list: choose another`);
  const { samples, at } = viewSplit({ manifest, split: source.split, context });
  const cache = openShardCache({ fetchBlob: source.fetchBlob, cacheBytesMax });
  const width = tokenWidth(manifest);
  const atOnce = Math.max(1, Math.floor(kit.pieceBytes / (context * width)));
  const made = await kit.each(
    `${source.stage ?? ""}tokens`,
    Math.ceil(samples / atOnce),
    async (task) => {
      const places = Array.from({ length: Math.min(atOnce, samples - task * atOnce) }, (_, i) => at(task * atOnce + i));
      const { data } = await readSamples(manifest, "inputs", places, cache, context);
      const writer = new RecordWriter();
      for (let i = 0; i < places.length; i++)
        writer.add(recordOfTokens((data as Int32Array).subarray(i * context, (i + 1) * context), width));
      const { content, count } = writer.take();
      return putShard(kit.blobs, content, count);
    },
    { bytesOf: () => atOnce * context * width },
  );
  return made.flat();
}
