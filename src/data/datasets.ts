// The datasets of a network: names for manifests, kept in the store. Plain functions over stores, for
// whoever serves them (the orchestrator) or works on them directly (the command line, tests).

import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import { parseId, type Sha256 } from "../core/ids.ts";
import type { World } from "../core/world.ts";
import type { BlobSpace } from "../store/blobs/blob-store.ts";
import type { StateStore } from "../store/records/state-store.ts";
import { createItem, deleteItem, listItems, readItem } from "../store/records/update.ts";
import { type Lineage, lineageText, parseLineage } from "./lineage.ts";
import {
  blobsOf,
  datasetBytes,
  type Manifest,
  manifestHash,
  manifestText,
  parseManifest,
  unitsOf,
} from "./manifest.ts";
import { ruleOf, viewSplit } from "./order.ts";
import { fetchVerified } from "./shard-cache.ts";
import { type ShownSample, type ShowRequest, showSamples } from "./show.ts";
import { type SplitRequest, splitDataset } from "./splits.ts";
import { tokenise } from "./tokenise.ts";

/** The value of `dataset/{name}`. */
export interface DatasetRecord {
  readonly name: string;
  /** SHA-256 of the manifest, which is a blob: the dataset's identity. */
  readonly hash: Sha256;
  readonly kind: Manifest["kind"];
  /** Samples, tokens or documents. */
  readonly samples: number;
  readonly bytes: number;
  readonly splits: readonly { readonly name: string; readonly samples: number }[];
  readonly fields: readonly { readonly name: string; readonly dtype: string; readonly shape: readonly number[] }[];
  readonly createdWallMs: number;
  /** Whose key made it; absent where none was needed. */
  readonly owner?: string;
  /** The blob that says where it comes from (lineage.ts). */
  readonly lineage?: Sha256;
}

/** What a record says of its manifest. */
export function describeDataset(
  manifest: Manifest,
): Omit<DatasetRecord, "name" | "hash" | "createdWallMs" | "owner" | "lineage"> {
  return {
    kind: manifest.kind,
    samples: unitsOf(manifest),
    bytes: datasetBytes(manifest),
    splits: Object.keys(manifest.splits).map((name) => ({ name, samples: unitsOfSplit(manifest, name) })),
    fields:
      manifest.kind === "tensors"
        ? manifest.fields.map(({ name, dtype, shape }) => ({ name, dtype, shape: [...shape] }))
        : [],
  };
}

function unitsOfSplit(manifest: Manifest, split: string): number {
  const rule = ruleOf(manifest, split);
  if (rule.kind === "range") return rule.end - rule.start;
  if (rule.kind === "list") return rule.count;
  return Math.round(unitsOf(manifest) * (rule.to - rule.from));
}

export interface DatasetsOptions {
  readonly store: StateStore;
  /** The name space of datasets. */
  readonly blobs: BlobSpace;
  readonly world: Pick<World, "clock" | "timers" | "chance">;
  /** Sessions that still need the dataset of this hash. */
  readonly usedBy?: (hash: Sha256) => Promise<readonly string[]> | readonly string[];
  /** Blobs that something else than a dataset names: they stay when the dataset goes. */
  readonly named?: () => AsyncIterable<Sha256>;
}

export interface Datasets {
  /** Registers a manifest whose blobs are all there. Adding the same once more is fine. */
  add(name: string, manifest: Manifest, owner?: string, lineage?: Lineage): Promise<DatasetRecord>;
  /** Undefined where nobody said. */
  lineage(record: DatasetRecord): Promise<Lineage | undefined>;
  get(name: string): Promise<{ record: DatasetRecord; manifest: Manifest }>;
  manifest(hash: Sha256): Promise<Manifest>;
  list(): AsyncIterable<DatasetRecord>;
  /** Refused while a session uses it. Shards that no other dataset has are deleted. */
  remove(name: string): Promise<void>;
  split(name: string, newName: string, request: SplitRequest): Promise<DatasetRecord>;
  tokenise(name: string, newName: string, tokenizer: string, endToken?: string): Promise<DatasetRecord>;
  show(name: string, request: ShowRequest): Promise<ShownSample[]>;
}

export function datasetKey(name: string): string {
  return `dataset/${name}`;
}

export function openDatasets({ store, blobs, world, usedBy = () => [], named }: DatasetsOptions): Datasets {
  const fetchBlob = (hash: Sha256) => blobs.get(hash);

  async function manifestOf(hash: Sha256): Promise<Manifest> {
    return parseManifest(new TextDecoder().decode(await fetchVerified(fetchBlob, hash)));
  }

  async function recordOf(name: string): Promise<DatasetRecord> {
    const item = await readItem<DatasetRecord>(store, datasetKey(parseId(name, "the dataset's name")));
    return item?.record ?? fail("not_found", `there is no dataset ${name}: dcnr dataset list shows them`);
  }

  async function get(name: string) {
    const record = await recordOf(name);
    return { record, manifest: await manifestOf(record.hash) };
  }

  async function add(name: string, manifest: Manifest, owner?: string, lineage?: Lineage): Promise<DatasetRecord> {
    const key = datasetKey(parseId(name, "the dataset's name"));
    await checkBlobs(blobs, manifest);
    const text = new TextEncoder().encode(manifestText(manifest));
    const hash = manifestHash(manifest);
    await blobs.put(hash, text, text.byteLength);
    const told = lineage && new TextEncoder().encode(lineageText(lineage));
    const toldHash = told && sha256(told);
    if (told && toldHash) await blobs.put(toldHash, told, told.byteLength);
    const record: DatasetRecord = {
      ...describeDataset(manifest),
      name,
      hash,
      createdWallMs: world.clock.wallMs(),
      ...(owner && { owner }),
      ...(toldHash && { lineage: toldHash }),
    };
    const { record: stored } = await createItem(store, key, record, world);
    if (stored?.hash !== hash)
      fail("already_exists", `dataset ${name} exists with other content: remove it, or choose another name`);
    return stored;
  }

  async function remove(name: string): Promise<void> {
    const record = await recordOf(name);
    const sessions = await usedBy(record.hash);
    if (sessions.length > 0)
      fail("failed_precondition", `dataset ${name} is in use by ${sessions.join(", ")}: delete the session first`);
    const manifest = await manifestOf(record.hash).catch(() => undefined);
    await deleteItem<DatasetRecord>(store, datasetKey(name), world, (current) => current.hash === record.hash);
    if (manifest) await deleteUnshared(manifest, record);
  }

  /** Deletes what only this manifest named. Another copy of the dataset under another name keeps everything. */
  async function deleteUnshared(manifest: Manifest, { hash, lineage }: DatasetRecord): Promise<void> {
    const garbage = new Set([hash, ...blobsOf(manifest).map((blob) => blob.hash), ...(lineage ? [lineage] : [])]);
    for await (const { record } of listItems<DatasetRecord>(store, "dataset/")) {
      garbage.delete(record.hash);
      if (record.lineage) garbage.delete(record.lineage);
      for (const blob of blobsOf(await manifestOf(record.hash))) garbage.delete(blob.hash);
    }
    if (named) for await (const blob of named()) garbage.delete(blob);
    for (const blob of garbage) await blobs.delete(blob);
  }

  return {
    add,
    get,
    manifest: manifestOf,
    async lineage({ lineage }) {
      return lineage && parseLineage(new TextDecoder().decode(await fetchVerified(fetchBlob, lineage)));
    },
    remove,
    async *list() {
      for await (const { record } of listItems<DatasetRecord>(store, "dataset/")) yield record;
    },
    async split(name, newName, request) {
      const { manifest } = await get(name);
      return add(newName, await splitDataset(manifest, request, { fetchBlob, blobs }));
    },
    async tokenise(name, newName, tokenizer, endToken) {
      const { manifest } = await get(name);
      if (manifest.kind !== "text")
        fail("failed_precondition", `dataset "${name}" holds ${manifest.kind}, not text: there is nothing to tokenise`);
      return add(newName, await tokenise({ manifest, tokenizer, fetchBlob, blobs, endToken }));
    },
    async show(name, request) {
      return showSamples((await get(name)).manifest, request, fetchBlob);
    },
  };
}

async function checkBlobs(blobs: BlobSpace, manifest: Manifest): Promise<void> {
  for (const { hash, bytes } of blobsOf(manifest)) {
    const size = await blobs.size(hash);
    if (size === undefined) fail("failed_precondition", `blob ${hash} of the dataset is not there: upload it first`);
    if (bytes !== undefined && size !== bytes)
      fail("data_loss", `blob ${hash} of the dataset has ${size} bytes, the manifest promises ${bytes}`);
  }
}

/** How many samples a split has; token streams need the context. Lists need no members to be counted. */
export function samplesOfSplit(manifest: Manifest, split: string, context?: number): number {
  const rule = ruleOf(manifest, split);
  return rule.kind === "list" ? rule.count : viewSplit({ manifest, split, context }).samples;
}
