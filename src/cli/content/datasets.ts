// What the dataset and vocab commands share: where data may come from on this machine, blobs over the wire, and
// how datasets are told of.

import { readFile } from "node:fs/promises";
import type { Client } from "../../client/client.ts";
import { fail, hasCode, messageOf } from "../../core/errors.ts";
import { parseId } from "../../core/ids.ts";
import type { ObjectGet, SourceAccess } from "../../data/imports/source.ts";
import { type Lineage, lineageText } from "../../data/lineage.ts";
import { type Manifest, manifestText, parseManifest } from "../../data/manifest.ts";
import type { FetchBlob } from "../../data/shard-cache.ts";
import { DataType } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import type { Dataset } from "../../protocol/gen/dcnr/v1/data_pb.ts";
import { httpsGet } from "../../system/wires/https-get.ts";
import type { Output } from "../shown/output.ts";
import { bytes } from "../shown/progress.ts";
import { classesOf } from "./class-names.ts";

/** Whoever types the command may read what they may read; https is guarded all the same. */
export function sourceAccess(): SourceAccess {
  return { httpGet: (request) => httpsGet(request), objectGet: bucketObject, stdin: process.stdin };
}

/** The AWS library is large; it is loaded when a bucket is named. */
const bucketObject: ObjectGet = async (bucket, key, start) => {
  const { openBuckets } = await import("../../data/imports/buckets.ts");
  const endpoint = process.env["AWS_ENDPOINT_URL_S3"] ?? process.env["AWS_ENDPOINT_URL"];
  return openBuckets(endpoint ? { endpoint } : {}).get(bucket, key, start);
};

export async function remoteDataset(
  client: Client,
  name: string,
): Promise<{ manifest: Manifest; fetchBlob: FetchBlob }> {
  const { manifest } = await client.datasets.get(name);
  return { manifest: parseManifest(manifest), fetchBlob: (hash) => client.datasets.download(name, hash) };
}

/** What would be refused after hours of work is refused before. */
export async function checkNewName(client: Client, name: string, out: Output): Promise<void> {
  parseId(name, "the dataset's name");
  const known = await client.datasets.get(name).catch((error: unknown) => {
    if (hasCode(error, "not_found")) return undefined;
    throw error;
  });
  if (known) out.note(`there is a dataset ${name}: with the same content nothing changes, other content is refused`);
}

/** Registers a manifest whose blobs are uploaded, and says so. */
export async function register(
  client: Client,
  name: string,
  manifest: Manifest,
  out: Output,
  json: boolean,
  lineage: Lineage,
): Promise<void> {
  const dataset = await client.datasets.create(name, manifestText(manifest), lineageText(lineage));
  if (json) out.json(datasetJson(dataset));
  else
    out.line(`dataset ${name}: ${contentOf(dataset)}, ${bytes(dataset.bytes)}, manifest ${dataset.hash.slice(0, 12)}`);
  const classes = classesOf(manifest);
  if (classes && !json) out.line(classesText(classes));
}

/** As JSON shows it: types by name. */
export function datasetJson(dataset: Dataset) {
  const nameOf = (type: DataType) =>
    Object.entries(DataType)
      .find(([, value]) => value === type)?.[0]
      .toLowerCase();
  const fields = dataset.fields.map((field) => ({ ...field, dtype: nameOf(field.dtype) }));
  return { ...dataset, fields };
}

const classesShown = 20;

export function classesText(classes: readonly string[]): string {
  const more = classes.length > classesShown ? ", ..." : "";
  return `${classes.length} classes: ${classes.slice(0, classesShown).join(", ")}${more}`;
}

const units: Readonly<Record<string, string>> = { tensors: "samples", tokens: "tokens", text: "documents" };

export function contentOf(dataset: Dataset): string {
  return `${dataset.samples.toLocaleString("en")} ${units[dataset.kind] ?? "samples"}`;
}

export function splitsOf(dataset: Dataset): string {
  return dataset.splits.map((split) => `${split.name} ${split.samples.toLocaleString("en")}`).join(", ");
}

/** A tokenizer.json: a file if the name ends so, else a vocabulary of the network. */
export async function readVocabulary(client: Client, name: string): Promise<string> {
  if (!name.endsWith(".json")) return (await client.vocabularies.get(name)).tokenizer;
  return readFile(name, "utf8").catch((thrown) =>
    fail("not_found", `${name} cannot be read: ${messageOf(thrown)}`, thrown),
  );
}
