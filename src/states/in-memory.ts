// States in memory, cut and read as real ones are: for the simulator, tests and benchmarks.

import { digestHere, sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import type { Tensor } from "../core/tensor.ts";
import { cutState, describeImage, piecesOf, type StateImage } from "./cut.ts";
import { type StateManifest, writeStateManifest } from "./manifest.ts";
import { StateReader } from "./reader.ts";

export interface MemoryState {
  readonly state: Sha256;
  readonly manifest: StateManifest;
  /** The manifest and the parts, by hash. */
  readonly blobs: ReadonlyMap<Sha256, Uint8Array>;
  readonly reader: StateReader;
}

export async function memoryState(image: StateImage, partBytes = 64): Promise<MemoryState> {
  const blobs = new Map<Sha256, Uint8Array>();
  const manifest = await cutState(describeImage(image), piecesOf(image), {
    partBytes,
    digest: digestHere,
    onPart: ({ hash, content }) => void blobs.set(hash, new Uint8Array(content)),
  });
  const text = writeStateManifest(manifest);
  const state = sha256(text);
  blobs.set(state, text);
  const fetchPart = async (hash: Sha256, into: Uint8Array) => into.set(blobs.get(hash) as Uint8Array);
  const reader = new StateReader({ manifest, fetchPart, clock: { monotonicMs: () => 0 }, what: "the state" });
  return { state, manifest, blobs, reader };
}

/** As it is now: the tensors may change afterwards. */
export function copiedImage({ tensors, ...image }: StateImage): StateImage {
  const copy = (tensor: Tensor): Tensor => ({ ...tensor, data: tensor.data.slice() });
  return { ...image, tensors: new Map(Array.from(tensors, ([name, tensor]) => [name, copy(tensor)])) };
}
