// VocabularyService: tokenizer.json files under names.

import { parseSha256 } from "../../core/ids.ts";
import { openVocabularies, type VocabularyRecord } from "../../data/vocabularies.ts";
import { VocabularyService } from "../../protocol/gen/dcnr/v1/data_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import { page } from "./pages.ts";

const downloadLifetimeMs = 60 * 60_000;

export function vocabularyService(context: Context): ServedService {
  const { mirror, world, aside } = context;
  const blobs = context.blobs.vocabularies;
  const vocabularies = openVocabularies({ store: mirror.store, blobs, world, aside });
  return service(VocabularyService, {
    createVocabulary: async ({ name, hash: text }, { caller }) => {
      const hash = parseSha256(text, "the vocabulary's file");
      return { vocabulary: view(await vocabularies.create(name, hash, caller.roles?.owner)) };
    },
    getVocabulary: async ({ name }) => {
      const record = await vocabularies.get(name);
      const grant = await blobs.grant("download", record.hash, record.bytes, downloadLifetimeMs);
      return { vocabulary: view(record), url: grant.url, headers: { ...grant.headers } };
    },
    listVocabularies: async (request) => {
      const records = await Array.fromAsync(vocabularies.list());
      const { items, nextPageToken } = page(records, (one) => one.name, request);
      return { vocabularies: items.map(view), nextPageToken };
    },
    deleteVocabulary: async ({ name }) => {
      await vocabularies.delete(name);
      return {};
    },
  });
}

function view(record: VocabularyRecord) {
  return {
    name: record.name,
    hash: record.hash,
    tokens: record.tokens,
    bytes: BigInt(record.bytes),
    createdWallMs: BigInt(Math.round(record.createdWallMs)),
  };
}
