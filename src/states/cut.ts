// Turns the bytes of a state into parts with names, one part in memory at a time.

import { assert } from "../core/assert.ts";
import type { Digest } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import { bytesOf, type Tensor } from "../core/tensor.ts";
import { partCount, partLength, type StateDescription, type StateManifest, stateBytesOf } from "./manifest.ts";

export interface StatePart {
  readonly index: number;
  readonly hash: Sha256;
  /** The next part may use the same memory: it is whoever is told of it that copies what should stay. */
  readonly content: Uint8Array;
}

export interface CutOptions {
  readonly partBytes: number;
  readonly digest: Digest;
  /** Told of each part in order; the next one waits for it. */
  readonly onPart: (part: StatePart) => Promise<void> | void;
}

/** `pieces` are the bytes of the described tensors in their order, cut anyhow. */
export async function cutState(
  description: StateDescription,
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  { partBytes, digest, onPart }: CutOptions,
): Promise<StateManifest> {
  const { metadata, tensors, apartBytes } = description;
  const bytes = stateBytesOf(tensors);
  const cut = { bytes, partBytes, ...(apartBytes && { apartBytes }) };
  const parts: Sha256[] = [];
  let buffer: Uint8Array | undefined;
  let held = 0;
  const emit = async (content: Uint8Array) => {
    const part = { index: parts.length, hash: await digest(content), content };
    parts.push(part.hash);
    await onPart(part);
  };
  for await (const piece of pieces) {
    for (let at = 0; at < piece.byteLength; ) {
      const length = partLength(cut, parts.length);
      assert(length > 0, "a state has no more bytes than its tensors say");
      const take = Math.min(length - held, piece.byteLength - at);
      const taken = piece.subarray(at, at + take);
      at += take;
      // Memory that other threads may write to is never hashed in place.
      if (take === length && !(piece.buffer instanceof SharedArrayBuffer)) {
        await emit(taken);
        continue;
      }
      buffer ??= new Uint8Array(Math.min(partBytes, bytes));
      buffer.set(taken, held);
      held += take;
      if (held < length) continue;
      held = 0;
      await emit(buffer.subarray(0, length));
    }
  }
  assert(held === 0 && parts.length === partCount(cut), "a state has as many bytes as its tensors say");
  return { metadata, tensors, ...cut, parts };
}

/** A state where it lies: the tensors may still change. */
export interface StateImage {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: ReadonlyMap<string, Tensor>;
  readonly apartBytes?: number;
}

export function describeImage({ metadata, tensors, apartBytes }: StateImage): StateDescription {
  const apart = apartBytes && { apartBytes };
  return { metadata, ...apart, tensors: Array.from(tensors, ([name, { dtype, shape }]) => ({ name, dtype, shape })) };
}

/** Views of the live memory, in the order of the description. */
export function* piecesOf({ tensors }: StateImage): Generator<Uint8Array> {
  for (const tensor of tensors.values()) yield bytesOf(tensor);
}
