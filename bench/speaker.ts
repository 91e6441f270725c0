// A small decoder with random weights, for benchmarks of generation: what it says means nothing, how fast it does means something.

import { t1, transformerYaml } from "../examples/generate.ts";
import type { Client } from "../src/client/client.ts";
import { statePartBytes } from "../src/core/blobs.ts";
import { fillNormal, randomKey } from "../src/core/numbers/random.ts";
import { elementCount, type Tensor } from "../src/core/tensor.ts";
import { compileText } from "../src/network/compile.ts";
import type { Plan } from "../src/network/plan.ts";
import { BlobSpace } from "../src/protocol/gen/dcnr/v1/common_pb.ts";
import { type MemoryState, memoryState } from "../src/states/in-memory.ts";

export const speakerSize = { ...t1, name: "speaker", blocks: 4, context: 640, vocabulary: 4_096 };

export interface Speaker {
  readonly definition: string;
  readonly plan: Plan;
  /** By VNode. */
  readonly states: ReadonlyMap<string, MemoryState>;
}

export async function makeSpeaker(): Promise<Speaker> {
  const definition = transformerYaml(speakerSize);
  const plan = compileText(definition);
  const states = new Map<string, MemoryState>();
  for (const { id, parameters } of plan.vnodes) {
    const tensors = new Map<string, Tensor>();
    for (const { name, shape } of parameters) {
      const data = new Float32Array(elementCount(shape));
      fillNormal(data, randomKey("speaker", name), 0.05);
      tensors.set(name, { dtype: "float32", shape, data });
    }
    states.set(id, await memoryState({ metadata: {}, tensors }, statePartBytes));
  }
  return { definition, plan, states };
}

/** Stores it and serves it over so many PNodes. Nobody repeats its answers: that comes when it comes, and would be counted for whatever is measured. */
export async function serveSpeaker({ definition, states }: Speaker, client: Client, spread: number): Promise<void> {
  const hashes: Record<string, string> = {};
  for (const [id, { state, blobs }] of states) {
    for (const content of blobs.values()) await client.datasets.upload(content, BlobSpace.STATES);
    hashes[id] = state;
  }
  await client.models.register({ name: speakerSize.name, definition, states: hashes });
  await client.models.serve(speakerSize.name, { spread, audit: "off" });
}

export function speakerTokens(count: number): number[] {
  return Array.from({ length: count }, (_, i) => (i * 7919 + 13) % speakerSize.vocabulary);
}
