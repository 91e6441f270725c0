// DatasetService: manifests under names. Shards are blobs that clients upload first, by granted addresses.

import type { BlobSpaceName } from "../../core/blobs.ts";
import { fail } from "../../core/errors.ts";
import { parseSha256, type Sha256 } from "../../core/ids.ts";
import { type DatasetRecord, openDatasets } from "../../data/datasets.ts";
import { lineageText, parseLineage } from "../../data/lineage.ts";
import { blobsOf, type Manifest, manifestText, parseManifest } from "../../data/manifest.ts";
import { BlobSpace } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import { type Dataset, DatasetService } from "../../protocol/gen/dcnr/v1/data_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import { prefix } from "../records/store-keys.ts";
import type { Garbage } from "../sessions/garbage.ts";
import { page } from "./pages.ts";
import { sampleViews, wireType } from "./samples.ts";

const uploadLifetimeMs = 60 * 60_000;
const downloadLifetimeMs = 60 * 60_000;
const shownSamplesMax = 100;

export interface DatasetApiNeeds {
  readonly context: Context;
  readonly garbage: Garbage;
}

export function datasetService({ context, garbage }: DatasetApiNeeds): ServedService {
  const { mirror, world } = context;
  const blobs = context.blobs.datasets;
  const datasets = openDatasets({
    store: mirror.store,
    blobs,
    world,
    usedBy: (hash) => usersOf(context, hash),
    named: () => namedElsewhere(context),
  });
  return service(DatasetService, {
    grantUpload: async ({ hash: text, bytes, space }) => {
      const hash = parseSha256(text, "the blob's name");
      const name = uploadSpaces[space] ?? fail("invalid_argument", "name the space that the blob is for");
      if (name === "states") garbage.wanted(hash);
      const into = context.blobs[name];
      if ((await into.size(hash)) === Number(bytes)) return { present: true };
      const grant = await into.grant("upload", hash, Number(bytes), uploadLifetimeMs);
      return { url: grant.url, headers: { ...grant.headers } };
    },
    createDataset: async ({ name, manifest: text, lineage }, { caller }) => {
      const manifest = parseManifest(text);
      const told = lineage === "" ? undefined : parseLineage(lineage);
      const record = await datasets.add(name, manifest, caller.roles?.owner, told);
      await keepVocabulary(context, manifest);
      return { dataset: view(record) };
    },
    getDataset: async ({ name }) => {
      const { record, manifest } = await datasets.get(name);
      const lineage = await datasets.lineage(record);
      return {
        dataset: view(record),
        manifest: manifestText(manifest),
        lineage: lineage ? lineageText(lineage) : "",
      };
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

/** Definitions are not among them: orchestrators compile them first. */
const uploadSpaces: Readonly<Partial<Record<BlobSpace, BlobSpaceName>>> = {
  [BlobSpace.UNSPECIFIED]: "datasets",
  [BlobSpace.DATASETS]: "datasets",
  [BlobSpace.STATES]: "states",
  [BlobSpace.VOCABULARIES]: "vocabularies",
};

/** A trained session or model needs its vocabulary after its data is gone: it gets a copy that outlives the dataset. */
async function keepVocabulary({ blobs }: Context, manifest: Manifest): Promise<void> {
  const { datasets, vocabularies } = blobs;
  const tokenizer = manifest.kind === "tokens" ? manifest.tokenizer : undefined;
  if (tokenizer === undefined || (await vocabularies.size(tokenizer)) !== undefined) return;
  const content = await datasets.get(tokenizer);
  await vocabularies.put(tokenizer, content, content.byteLength);
}

/** Sessions that have not come to their end yet. */
function usersOf(context: Context, hash: Sha256): string[] {
  return context.mirror
    .under(prefix.sessions)
    .filter(({ identity, status }) => identity.dataset === hash && !["done", "failed", "deleted"].includes(status))
    .map(({ id }) => `session ${id}`);
}

/** What a session was trained on is told from its manifest after its data is gone. */
async function* namedElsewhere({ mirror }: Context): AsyncGenerator<Sha256> {
  for (const { identity, status } of mirror.under(prefix.sessions)) if (status !== "deleted") yield identity.dataset;
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
