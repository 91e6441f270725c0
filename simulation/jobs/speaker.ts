// The served model of job worlds, for jobs that ask one: PNodes that act say each prompt backwards, so what its answers to all notes
// come to is known before anybody asks.

import { sha256 } from "../../src/core/hash.ts";
import { byteCharacter } from "../../src/data/bpe/alphabet.ts";
import { tokenizerJson } from "../../src/data/bpe/json.ts";
import { buildText } from "../../src/data/build.ts";
import { manifestHash, manifestText } from "../../src/data/manifest.ts";
import { compileText } from "../../src/network/compile.ts";
import { DatasetService } from "../../src/protocol/gen/dcnr/v1/data_pb.ts";
import { InferenceService } from "../../src/protocol/gen/dcnr/v1/inference_pb.ts";
import { openMemoryBlobs } from "../../src/store/memory.ts";
import { actedState } from "../../test/control/acting-pnode.ts";
import type { Stage } from "../../test/control/stage.ts";

export const speaker = "speaker";
/** Some pieces of eight, the last one smaller. */
const notes = Array.from({ length: 28 }, (_, index) => `n${index}`);

const definition = `
name: ${speaker}
nodes:
  - { id: table, type: embedder, config: { vocab_size: 256, dim: 8, seq_len: 32, shared_weight_alias: t } }
  - { id: loss, type: tied_lm_head_ce, config: { tie_weight_alias: t, colocate_group: head } }
edges: [{ from: table, to: loss }]
`;

/** Tokens are bytes. */
export const backwards = (prompt: readonly number[]): readonly number[] => prompt.toReversed();

export const questions = (save: string) => ({
  dataset: "notes",
  model: speaker,
  save,
  prompt: "{text}",
  "max-tokens": 8,
});

/** The hash of the dataset that every job comes to. */
export async function answersHash(): Promise<string> {
  const builder = buildText(false, { blobs: openMemoryBlobs().datasets });
  for (const note of notes) await builder.add(Uint8Array.from(backwards([...new TextEncoder().encode(note)])));
  return manifestHash(await builder.finish());
}

/** Served once PNodes are there whose engine it can have. */
export async function serveSpeaker(stage: Stage): Promise<void> {
  const { datasets, states, vocabularies } = stage.blobs.inner;
  const builder = buildText(false, { blobs: datasets });
  for (const note of notes) await builder.add(new TextEncoder().encode(note));
  const manifest = manifestText(await builder.finish());
  await stage.call(DatasetService.method.createDataset, { name: "notes", manifest });
  const tokens = Array.from({ length: 256 }, (_, byte) => byteCharacter(byte));
  const tokenizer = new TextEncoder().encode(tokenizerJson({ tokens, specials: [], merges: [] }));
  await vocabularies.put(sha256(tokenizer), tokenizer, tokenizer.byteLength);
  const stored: Record<string, string> = {};
  for (const { id } of compileText(definition).vnodes) {
    const { state, blobs } = await actedState(speaker, id, 1);
    for (const [hash, content] of blobs) await states.put(hash, content, content.byteLength);
    stored[id] = state;
  }
  const model = { name: speaker, definition, states: stored, tokenizer: sha256(tokenizer) };
  await stage.call(InferenceService.method.registerModel, model);
  await stage.call(InferenceService.method.serveModel, { source: speaker, name: speaker });
}

export async function stopSpeaker(stage: Stage): Promise<void> {
  await stage.call(InferenceService.method.stopModel, { name: speaker });
}
