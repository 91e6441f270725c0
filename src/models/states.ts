// An imported model as states of VNodes: one safetensors blob for each, as checkpoints are, so that sessions can
// start from it and networks can serve it. One VNode's weights are in memory at a time.

import { sha256 } from "../core/hash.ts";
import type { Sha256, VNodeId } from "../core/ids.ts";
import { bytesOf, type Shape, tensorBytes } from "../core/tensor.ts";
import type { BlobSink } from "../data/build.ts";
import { compileText } from "../network/compile.ts";
import type { VNodePlan } from "../network/plan.ts";
import type { ImportedModel } from "./huggingface.ts";

export interface StateBlob {
  readonly hash: Sha256;
  readonly bytes: number;
}

export interface StoreOptions {
  readonly blobs: BlobSink;
  readonly onProgress?: (progress: { readonly vnodes: number; readonly of: number; readonly bytes: number }) => void;
}

/** Stores the weights; gives the blob of each VNode, those without weights included. */
export async function storeStates(
  model: Pick<ImportedModel, "definition" | "load">,
  { blobs, onProgress }: StoreOptions,
): Promise<ReadonlyMap<VNodeId, StateBlob>> {
  const { vnodes } = compileText(model.definition);
  const states = new Map<VNodeId, StateBlob>();
  let bytes = 0;
  for (const vnode of vnodes) {
    const content = await writeState(vnode, model);
    const hash = sha256(content);
    if ((await blobs.size(hash)) === undefined) await blobs.put(hash, content, content.byteLength);
    states.set(vnode.id, { hash, bytes: content.byteLength });
    bytes += content.byteLength;
    onProgress?.({ vnodes: states.size, of: vnodes.length, bytes });
  }
  return states;
}

async function writeState(vnode: VNodePlan, model: Pick<ImportedModel, "load">): Promise<Uint8Array> {
  const header: Record<
    string,
    { dtype: string; shape: Shape; data_offsets: [number, number] } | Record<string, string>
  > = {
    __metadata__: { format: "dcnr-vnode-1", vnode: vnode.id, step: "0" },
  };
  let end = 0;
  for (const { name, shape } of vnode.parameters) {
    const start = end;
    end += tensorBytes("float32", shape);
    header[name] = { dtype: "F32", shape, data_offsets: [start, end] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  // Values start at a multiple of 8, so that they can be viewed in place.
  const headerBytes = Math.ceil(text.byteLength / 8) * 8;
  const content = new Uint8Array(8 + headerBytes + end);
  new DataView(content.buffer).setBigUint64(0, BigInt(headerBytes), true);
  content.fill(0x20, 8, 8 + headerBytes);
  content.set(text, 8);
  let at = 8 + headerBytes;
  for (const { name } of vnode.parameters) {
    const bytes = bytesOf(await model.load(name));
    content.set(bytes, at);
    at += bytes.byteLength;
  }
  return content;
}
