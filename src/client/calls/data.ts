// Calls about datasets and vocabularies.

import { BlobSpace } from "../../protocol/gen/dcnr/v1/common_pb.ts";
import {
  type Dataset,
  DatasetService,
  type Vocabulary,
  VocabularyService,
} from "../../protocol/gen/dcnr/v1/data_pb.ts";
import type { Blobs } from "./blobs.ts";
import { allPages, type Line } from "./line.ts";

export const datasetCalls = (line: Line, blobs: Blobs) => ({
  /** Sends a blob unless it is there already; `space` says what it is for. */
  upload: (content: Uint8Array, space: BlobSpace = BlobSpace.DATASETS): Promise<string> => blobs.upload(content, space),
  /** `lineage`: where it comes from, as JSON (data/lineage.ts). */
  create: async (name: string, manifest: string, lineage = ""): Promise<Dataset> => {
    const method = DatasetService.method.createDataset;
    const { dataset } = await line.call(method, { name, manifest, lineage });
    return dataset!;
  },
  get: (name: string) => line.call(DatasetService.method.getDataset, { name }),
  list: (): Promise<Dataset[]> =>
    allPages(async (pageToken) => {
      const page = await line.call(DatasetService.method.listDatasets, { pageToken });
      return { items: page.datasets, next: page.nextPageToken };
    }),
  /** A blob of the dataset, for work on its content; whoever uses it checks its hash. */
  download: async (name: string, hash: string): Promise<Uint8Array> => {
    const method = DatasetService.method.grantDownload;
    return blobs.fetch(await line.call(method, { name, hash }));
  },
  delete: (name: string) => line.call(DatasetService.method.deleteDataset, { name }),
  samples: async (name: string, start: number, count: number) => {
    const method = DatasetService.method.showSamples;
    const { samples } = await line.call(method, { name, start: BigInt(start), count });
    return samples;
  },
});

export const vocabularyCalls = (line: Line, blobs: Blobs) => ({
  /** Uploads a tokenizer.json and gives it a name. */
  create: async (name: string, tokenizer: string): Promise<Vocabulary> => {
    const hash = await blobs.upload(new TextEncoder().encode(tokenizer), BlobSpace.VOCABULARIES);
    const method = VocabularyService.method.createVocabulary;
    const { vocabulary } = await line.call(method, { name, hash });
    return vocabulary!;
  },
  get: async (name: string): Promise<{ vocabulary: Vocabulary; tokenizer: string }> => {
    const found = await line.call(VocabularyService.method.getVocabulary, { name });
    return { vocabulary: found.vocabulary!, tokenizer: new TextDecoder().decode(await blobs.fetch(found)) };
  },
  list: (): Promise<Vocabulary[]> =>
    allPages(async (pageToken) => {
      const page = await line.call(VocabularyService.method.listVocabularies, { pageToken });
      return { items: page.vocabularies, next: page.nextPageToken };
    }),
  delete: (name: string) => line.call(VocabularyService.method.deleteVocabulary, { name }),
});
