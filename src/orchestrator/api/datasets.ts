// DatasetService: manifests under names. Shards are blobs that clients upload first, by granted addresses.

import { fail } from "../../core/errors.ts";
import { parseSha256, type Sha256 } from "../../core/ids.ts";
import { type DatasetRecord, openDatasets } from "../../data/datasets.ts";
import { blobsOf, manifestText, parseManifest } from "../../data/manifest.ts";
import { openVocabularies } from "../../data/vocabularies.ts";
import { type Dataset, DatasetService } from "../../protocol/gen/dcnr/v1/data_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import { prefix } from "../records/records.ts";
import { listModels } from "../serving/models.ts";
import { page } from "./pages.ts";
import { sampleViews, wireType } from "./samples.ts";

const uploadLifetimeMs = 60 * 60_000;
const downloadLifetimeMs = 60 * 60_000;
const shownSamplesMax = 100;

export function datasetService(context: Context): ServedService {
  const { mirror, blobs, world } = context;
  const datasets = openDatasets({
    store: mirror.store,
    blobs,
    world,
    usedBy: (hash) => usersOf(context, hash),
    named: () => namedElsewhere(context),
  });
  return service(DatasetService, {
    grantUpload: async ({ hash: text, bytes }) => {
      const hash = parseSha256(text, "the shard's name");
      if ((await blobs.size(hash)) !== undefined) return { present: true };
      const grant = await blobs.grant("upload", hash, Number(bytes), uploadLifetimeMs);
      return { url: grant.url, headers: { ...grant.headers } };
    },
    createDataset: async ({ name, manifest }) => ({
      dataset: view(await datasets.add(name, parseManifest(manifest))),
    }),
    getDataset: async ({ name }) => {
      const { record, manifest } = await datasets.get(name);
      return { dataset: view(record), manifest: manifestText(manifest) };
    },
    listDatasets: async (request) => {
      const records = await Array.fromAsync(datasets.list());
      const { items, nextPageToken } = page(records, (one) => one.name, request);
      return { datasets: items.map(view), nextPageToken };
    },
    deleteDataset: async ({ name }) => {
      await datasets.remove(name);
      return {};
    },
    grantDownload: async ({ name, hash: text }) => {
      const { record, manifest } = await datasets.get(name);
      const hash = parseSha256(text, "the blob's name");
      // Only what the dataset names: states of sessions are no business of whoever works on data.
      const blob = blobsOf(manifest).find((one) => one.hash === hash);
      if (!blob) fail("not_found", `dataset ${record.name} has no blob ${hash}`);
      const bytes = blob.bytes ?? (await blobs.size(hash)) ?? fail("data_loss", `the blob ${hash} is gone`);
      const grant = await blobs.grant("download", hash, bytes, downloadLifetimeMs);
      return { url: grant.url, headers: { ...grant.headers } };
    },
    showSamples: async ({ name, start, count }) => {
      const { manifest } = await datasets.get(name);
      return { samples: await sampleViews(blobs, manifest, Number(start), Math.min(count || 5, shownSamplesMax)) };
    },
  });
}

/** Sessions that have not come to their end yet. */
function usersOf(context: Context, hash: Sha256): string[] {
  return context.mirror
    .under(prefix.sessions)
    .filter(({ identity, status }) => identity.dataset === hash && !["done", "failed", "deleted"].includes(status))
    .map(({ id }) => `session ${id}`);
}

/** Vocabularies are files of their own, and a trained session or model needs its vocabulary after its data is gone. */
async function* namedElsewhere(context: Context): AsyncGenerator<Sha256> {
  const { mirror, blobs, world } = context;
  for await (const { hash } of openVocabularies({ store: mirror.store, blobs, world }).list()) yield hash;
  for (const { tokenizer } of await listModels(context)) if (tokenizer) yield parseSha256(tokenizer, "the tokenizer");
  const sessions = mirror.under(prefix.sessions).filter(({ status }) => status !== "deleted");
  for (const dataset of new Set(sessions.map(({ identity }) => identity.dataset))) {
    yield dataset;
    const content = await blobs.get(dataset).catch(() => undefined);
    const manifest = content && parseManifest(new TextDecoder().decode(content));
    if (manifest?.kind === "tokens" && manifest.tokenizer) yield manifest.tokenizer;
  }
}

function view(record: DatasetRecord): Omit<Dataset, "$typeName" | "$unknown" | "splits" | "fields"> & {
  splits: { name: string; samples: bigint }[];
  fields: { name: string; dtype: ReturnType<typeof wireType>; shape: number[] }[];
} {
  return {
    name: record.name,
    hash: record.hash,
    kind: record.kind,
    samples: BigInt(record.samples),
    bytes: BigInt(record.bytes),
    splits: record.splits.map(({ name, samples }) => ({ name, samples: BigInt(samples) })),
    fields: record.fields.map(({ name, dtype, shape }) => ({ name, dtype: wireType(dtype), shape: [...shape] })),
    createdWallMs: BigInt(Math.round(record.createdWallMs)),
  };
}
