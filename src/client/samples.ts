// A dataset from samples that a program holds in memory; files and streams are `dcnr dataset add`'s business.

import type { BlobSink } from "../data/build.ts";
import { importInline } from "../data/imports/import-rows.ts";
import { manifestText } from "../data/manifest.ts";
import { splitDataset } from "../data/splits.ts";
import type { Dataset } from "../protocol/gen/dcnr/v1/data_pb.ts";
import type { Client } from "./client.ts";

/** A number, or numbers in any depth: one sample of a field. */
export type SampleValue = number | readonly SampleValue[];

export interface Samples {
  readonly inputs: readonly SampleValue[];
  /** Texts are names of classes. */
  readonly labels?: readonly SampleValue[] | readonly string[];
}

export interface SamplesOptions {
  /** Share of the samples that only validates; the others train. 0: all samples are one split, "all". */
  readonly validationShare?: number;
  readonly seed?: number;
}

export async function addSamples(
  client: Client,
  name: string,
  samples: Samples,
  { validationShare = 0, seed = 0 }: SamplesOptions = {},
): Promise<Dataset> {
  const blobs: BlobSink = {
    put: async (_hash, content) => {
      const parts: Uint8Array[] = [];
      if (content instanceof Uint8Array) parts.push(content);
      else for await (const part of content) parts.push(part);
      await client.datasets.upload(Buffer.concat(parts));
    },
    size: async () => undefined,
  };
  const manifest = await importInline(JSON.stringify(samples), { blobs });
  if (validationShare === 0) return client.datasets.create(name, manifestText(manifest));
  const fetchBlob = (hash: string) => client.datasets.download(name, hash);
  const request = { by: "ratio", share: validationShare, seed } as const;
  const split = await splitDataset(manifest, request, { fetchBlob, blobs });
  return client.datasets.create(name, manifestText(split));
}
