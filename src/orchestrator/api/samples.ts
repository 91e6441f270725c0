// Some samples of a dataset, for people to look at.

import { fail } from "../../core/errors.ts";
import { bytesOf, type DType, elementCount, type Tensor } from "../../core/tensor.ts";
import { readSamples } from "../../data/batches.ts";
import { documentEnd, type Manifest, type TextManifest, unitsOf } from "../../data/manifest.ts";
import { viewSplit } from "../../data/order.ts";
import { openShardCache } from "../../data/shard-cache.ts";
import { DataType } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import type { BlobSpace } from "../../store/blobs/blob-store.ts";

const cacheBytesMax = 256 << 20;
/** Tokens of one sample as shown; a session's own context comes from its network. */
const shownTokens = 64;
const shownTextMax = 4_000;

const wireTypes: Record<DType, DataType> = {
  float32: DataType.FLOAT32,
  float64: DataType.FLOAT64,
  int32: DataType.INT32,
  int64: DataType.INT64,
  uint8: DataType.UINT8,
  bool: DataType.BOOL,
  float16: DataType.FLOAT16,
  bfloat16: DataType.BFLOAT16,
};

export function wireType(dtype: string): DataType {
  return wireTypes[dtype as DType] ?? DataType.UNSPECIFIED;
}

interface SampleView {
  index: bigint;
  fields: Record<string, { dtype: DataType; shape: number[]; data: Uint8Array<ArrayBuffer> }>;
  text: string;
}

export async function sampleViews(
  blobs: BlobSpace,
  manifest: Manifest,
  start: number,
  count: number,
): Promise<SampleView[]> {
  const units = unitsOf(manifest);
  if (start >= units) fail("out_of_range", `the dataset has ${units} samples, there is no number ${start}`);
  if (manifest.kind === "text") return documents(blobs, manifest, start, count);
  const cache = openShardCache({ fetchBlob: (hash) => blobs.get(hash), cacheBytesMax });
  const context = manifest.kind === "tokens" ? Math.min(shownTokens, units - 1) : undefined;
  const total = context === undefined ? units : Math.floor((units - 1) / context);
  const indices = Array.from({ length: Math.max(0, Math.min(count, total - start)) }, (_, i) => start + i);
  const names = manifest.kind === "tensors" ? manifest.fields.map((field) => field.name) : ["inputs"];
  const samples = indices.map((index): SampleView => ({ index: BigInt(index), fields: {}, text: "" }));
  for (const name of names) {
    const tensor = await readSamples(manifest, name, indices, cache, context);
    samples.forEach((sample, i) => {
      sample.fields[name] = slice(tensor, i);
    });
  }
  return samples;
}

function slice(tensor: Tensor, index: number): SampleView["fields"][string] {
  const shape = tensor.shape.slice(1);
  const all = bytesOf(tensor);
  const bytes = all.byteLength / Math.max(1, tensor.shape[0] as number);
  const data =
    elementCount(shape) === 0 ? new Uint8Array() : Uint8Array.from(all.subarray(index * bytes, (index + 1) * bytes));
  return { dtype: wireType(tensor.dtype), shape: [...shape], data };
}

async function documents(
  blobs: BlobSpace,
  manifest: TextManifest,
  start: number,
  count: number,
): Promise<SampleView[]> {
  const found: SampleView[] = [];
  let first = 0;
  for (const shard of manifest.shards) {
    if (found.length >= count) break;
    if (first + shard.count > start) {
      const content = await blobs.get(shard.hash);
      let from = 0;
      for (let index = first; index < first + shard.count && found.length < count; index++) {
        const end = content.indexOf(documentEnd, from);
        const text = content.subarray(from, end === -1 ? content.length : end);
        if (index >= start)
          found.push({
            index: BigInt(index),
            fields: {},
            text: new TextDecoder().decode(text.subarray(0, shownTextMax)),
          });
        from = end === -1 ? content.length : end + 1;
      }
    }
    first += shard.count;
  }
  return found;
}

const forwardSamplesMax = 1_024;

/** Inputs of neighbouring samples of a split as one tensor, for whoever names data instead of sending it. */
export async function samplesAsTensor(
  blobs: BlobSpace,
  manifest: Manifest,
  request: { split: string; start: number; count: number; context?: number },
): Promise<{ dtype: DataType; shape: number[]; data: Uint8Array<ArrayBuffer> }> {
  const { split, start, context } = request;
  const view = viewSplit({ manifest, split: split || "all", ...(context ? { context } : {}) });
  if (start >= view.samples) fail("out_of_range", `the split has ${view.samples} samples, there is no number ${start}`);
  const count = Math.min(request.count, view.samples - start, forwardSamplesMax);
  const indices = Array.from({ length: count }, (_, place) => view.at(start + place));
  const cache = openShardCache({ fetchBlob: (hash) => blobs.get(hash), cacheBytesMax });
  const tensor = await readSamples(manifest, "inputs", indices, cache, context);
  return { dtype: wireType(tensor.dtype), shape: [...tensor.shape], data: Uint8Array.from(bytesOf(tensor)) };
}
