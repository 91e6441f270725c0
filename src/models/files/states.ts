// An imported model as states of VNodes, as checkpoints are, so that sessions can start from it and networks can serve
// it. One parameter and one part are in memory at a time.

import { statePartBytes } from "../../core/blobs.ts";
import { digestHere, sha256 } from "../../core/hash.ts";
import type { Sha256, VNodeId } from "../../core/ids.ts";
import { bytesOf } from "../../core/tensor.ts";
import type { BlobSink } from "../../data/build.ts";
import { compileText } from "../../network/compile.ts";
import type { VNodePlan } from "../../network/plan.ts";
import { cutState } from "../../states/cut.ts";
import { stateBytesOf, writeStateManifest } from "../../states/manifest.ts";
import type { ImportedModel } from "./huggingface.ts";

export interface StateBlob {
  /** Of its manifest: the state's name. */
  readonly hash: Sha256;
  readonly bytes: number;
}

export interface StoreOptions {
  /** The name space of states. */
  readonly blobs: BlobSink;
  readonly onProgress?: (progress: { readonly vnodes: number; readonly of: number; readonly bytes: number }) => void;
}

/** Stores the weights; gives the state of each VNode, those without weights included. */
export async function storeStates(
  model: Pick<ImportedModel, "definition" | "load">,
  { blobs, onProgress }: StoreOptions,
): Promise<ReadonlyMap<VNodeId, StateBlob>> {
  const { vnodes } = compileText(model.definition);
  const states = new Map<VNodeId, StateBlob>();
  let bytes = 0;
  for (const vnode of vnodes) {
    const state = await storeState(vnode, model, blobs);
    states.set(vnode.id, state);
    bytes += state.bytes;
    onProgress?.({ vnodes: states.size, of: vnodes.length, bytes });
  }
  return states;
}

async function storeState(vnode: VNodePlan, model: Pick<ImportedModel, "load">, blobs: BlobSink): Promise<StateBlob> {
  const store = async (hash: Sha256, content: Uint8Array) => {
    if ((await blobs.size(hash)) !== content.byteLength) await blobs.put(hash, content, content.byteLength);
  };
  // As checkpoints lie: what is frozen in front and apart, so that its parts are those of the network that it came from.
  const frozen = vnode.parameters.filter((one) => one.frozen);
  const ordered = [...frozen, ...vnode.parameters.filter((one) => !one.frozen)];
  const described = (parameters: VNodePlan["parameters"]) =>
    parameters.map(({ name, shape }) => ({ name, dtype: "float32" as const, shape }));
  const apartBytes = stateBytesOf(described(frozen));
  const description = {
    metadata: { vnode: vnode.id, step: "0" },
    tensors: described(ordered),
    ...(apartBytes > 0 && { apartBytes }),
  };
  const manifest = await cutState(description, weightsOf(ordered, model), {
    partBytes: statePartBytes,
    digest: digestHere,
    onPart: ({ hash, content }) => store(hash, content),
  });
  const text = writeStateManifest(manifest);
  const hash = sha256(text);
  await store(hash, text);
  return { hash, bytes: manifest.bytes };
}

async function* weightsOf(
  parameters: VNodePlan["parameters"],
  model: Pick<ImportedModel, "load">,
): AsyncGenerator<Uint8Array> {
  for (const { name } of parameters) yield bytesOf(await model.load(name));
}
