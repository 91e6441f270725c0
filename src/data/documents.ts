// Text datasets read back: documents one after another, one shard in memory at a time.

import { fail } from "../core/errors.ts";
import { documentEnd, type Shard, type TextManifest } from "./manifest.ts";
import { ruleOf, splitList, viewSplit } from "./order.ts";
import { type FetchBlob, fetchVerified } from "./shard-cache.ts";

export interface Document {
  readonly index: number;
  readonly bytes: Uint8Array;
}

/** Documents [start, end) in order; shards before `start` are not fetched. */
export async function* readDocuments(
  manifest: TextManifest,
  fetchBlob: FetchBlob,
  start = 0,
  end = manifest.documents,
): AsyncGenerator<Document> {
  let first = 0;
  for (const shard of manifest.shards) {
    if (first >= end) return;
    if (first + shard.count > start) yield* documentsOfShard(shard, first, start, end, fetchBlob);
    first += shard.count;
  }
}

async function* documentsOfShard(shard: Shard, first: number, start: number, end: number, fetchBlob: FetchBlob) {
  const content = await fetchVerified(fetchBlob, shard.hash, shard.bytes);
  let at = 0;
  for (let i = 0; i < shard.count; i++) {
    const stop = content.indexOf(documentEnd, at);
    if (stop < 0) fail("data_loss", `shard ${shard.hash} has ${i} documents, its manifest promises ${shard.count}`);
    const index = first + i;
    if (index >= end) return;
    if (index >= start) yield { index, bytes: content.subarray(at, stop) };
    at = stop + 1;
  }
}

/** The documents of one split, in the order of the dataset. */
export async function* readSplit(
  manifest: TextManifest,
  split: string,
  fetchBlob: FetchBlob,
): AsyncGenerator<Document> {
  const rule = ruleOf(manifest, split);
  if (rule.kind === "range") {
    yield* readDocuments(manifest, fetchBlob, rule.start, rule.end);
    return;
  }
  const content = rule.kind === "list" ? await fetchVerified(fetchBlob, rule.hash, rule.count * 4) : undefined;
  const members = content && rule.kind === "list" ? splitList(content, rule, manifest.documents) : undefined;
  const view = viewSplit({ manifest, split, members });
  const chosen = new Uint8Array(manifest.documents);
  for (let place = 0; place < view.samples; place++) chosen[view.at(place)] = 1;
  for await (const document of readDocuments(manifest, fetchBlob)) if (chosen[document.index]) yield document;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export function textOfDocument(document: Document): string {
  return decoder.decode(document.bytes);
}
