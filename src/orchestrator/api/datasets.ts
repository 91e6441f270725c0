// DatasetService: manifests under names. Shards are blobs that clients upload first, by granted addresses.

import { DcnrError, fail } from "../../core/errors.ts";
import { parseId, parseSha256 } from "../../core/ids.ts";
import {
  blobsOf,
  datasetBytes,
  type Manifest,
  manifestHash,
  manifestText,
  parseManifest,
  unitsOf,
} from "../../data/manifest.ts";
import { viewSplit } from "../../data/order.ts";
import { type Dataset, DatasetService } from "../../protocol/gen/dcnr/v1/data_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import { listItems } from "../../store/update.ts";
import { type DatasetRecord, datasetKey, datasetsPrefix } from "../datasets.ts";
import type { Parts } from "../parts.ts";
import type { SessionRecord } from "../records.ts";
import { page } from "./pages.ts";
import { sampleViews, wireType } from "./samples.ts";

const uploadLifetimeMs = 60 * 60_000;
const downloadLifetimeMs = 60 * 60_000;
const shownSamplesMax = 100;

export function datasetService(parts: Parts): ServedService {
  const { mirror, blobs, world } = parts.context;
  return service(DatasetService, {
    grantUpload: async ({ hash: text, bytes }) => {
      const hash = parseSha256(text, "the shard's name");
      if ((await blobs.size(hash)) !== undefined) return { present: true };
      const grant = await blobs.grant("upload", hash, Number(bytes), uploadLifetimeMs);
      return { url: grant.url, headers: { ...grant.headers } };
    },
    createDataset: async ({ name: text, manifest: given }) => {
      const name = parseId<string>(text, "the dataset's name");
      const manifest = parseManifest(given);
      for (const blob of blobsOf(manifest)) {
        const size = await blobs.size(blob.hash);
        if (size === undefined)
          fail(
            "failed_precondition",
            `dataset ${name} names the blob ${blob.hash}, which is not there: upload it first`,
          );
        if (blob.bytes !== undefined && size !== blob.bytes)
          fail("data_loss", `the blob ${blob.hash} has ${size} bytes, the manifest says ${blob.bytes}`);
      }
      const content = new TextEncoder().encode(manifestText(manifest));
      const hash = manifestHash(manifest);
      await blobs.put(hash, content, content.byteLength);
      const wanted: DatasetRecord = { ...describe(manifest), name, hash, createdWallMs: world.clock.wallMs() };
      const { record } = await mirror.update<DatasetRecord>(datasetKey(name), (current) => {
        if (current && current.hash !== hash)
          fail("already_exists", `dataset ${name} exists with other content: remove it, or choose another name`);
        return current ? undefined : wanted;
      });
      return { dataset: view(record as DatasetRecord) };
    },
    getDataset: async ({ name }) => {
      const record = await find(parts, name);
      return { dataset: view(record), manifest: manifestText(await manifestOf(parts, record)) };
    },
    listDatasets: async (request) => {
      const records: DatasetRecord[] = [];
      for await (const { record } of listItems<DatasetRecord>(mirror.store, datasetsPrefix)) records.push(record);
      const { items, nextPageToken } = page(records, (one) => one.name, request);
      return { datasets: items.map(view), nextPageToken };
    },
    deleteDataset: async ({ name }) => {
      const record = await find(parts, name);
      const user = mirror
        .under<SessionRecord>("session/")
        .find(
          (session) =>
            session.identity.dataset === record.hash && !["done", "failed", "deleted"].includes(session.status),
        );
      if (user)
        fail("failed_precondition", `session ${user.id} uses dataset ${name}: wait for its end, or delete it first`);
      await mirror.remove(datasetKey(record.name));
      return {};
    },
    grantDownload: async ({ name, hash: text }) => {
      const record = await find(parts, name);
      const hash = parseSha256(text, "the blob's name");
      // Only what the dataset names: states of sessions are no business of whoever works on data.
      const blob = blobsOf(await manifestOf(parts, record)).find((one) => one.hash === hash);
      if (!blob) fail("not_found", `dataset ${record.name} has no blob ${hash}`);
      const bytes = blob.bytes ?? (await blobs.size(hash)) ?? fail("data_loss", `the blob ${hash} is gone`);
      const grant = await blobs.grant("download", hash, bytes, downloadLifetimeMs);
      return { url: grant.url, headers: { ...grant.headers } };
    },
    showSamples: async ({ name, start, count }) => {
      const record = await find(parts, name);
      const manifest = await manifestOf(parts, record);
      return { samples: await sampleViews(blobs, manifest, Number(start), Math.min(count || 5, shownSamplesMax)) };
    },
  });
}

async function find({ context }: Parts, text: string): Promise<DatasetRecord> {
  const name = parseId<string>(text, "the dataset's name");
  const record = await context.mirror.read<DatasetRecord>(datasetKey(name));
  return record ?? fail("not_found", `there is no dataset ${name}: \`dcnr dataset list\` shows them`);
}

async function manifestOf({ context }: Parts, record: DatasetRecord): Promise<Manifest> {
  return parseManifest(new TextDecoder().decode(await context.blobs.get(record.hash)));
}

function describe(manifest: Manifest): Omit<DatasetRecord, "name" | "hash" | "createdWallMs"> {
  return {
    kind: manifest.kind,
    samples: unitsOf(manifest),
    bytes: datasetBytes(manifest),
    splits: Object.keys(manifest.splits).map((name) => ({ name, samples: unitsIn(manifest, name) })),
    fields:
      manifest.kind === "tensors"
        ? manifest.fields.map(({ name, dtype, shape }) => ({ name, dtype, shape: [...shape] }))
        : [],
  };
}

/** Samples, tokens or documents of a split. */
function unitsIn(manifest: Manifest, split: string): number {
  const rule = manifest.splits[split];
  if (rule?.kind === "list") return rule.count;
  try {
    return viewSplit({ manifest, split, ...(manifest.kind === "tokens" ? { context: 1 } : {}) }).samples;
  } catch (thrown) {
    if (thrown instanceof DcnrError) return 0;
    throw thrown;
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
