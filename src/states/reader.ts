// Reads tensors of a state straight into the memory where they are needed: only the parts that hold them are fetched,
// a few at a time, so that a state of any size takes a few parts of memory beyond itself.

import { ownPages } from "../core/bytes.ts";
import { fail } from "../core/errors.ts";
import type { Sha256 } from "../core/ids.ts";
import { allocate, bytesOf, elementBytes, elementCount, type Shape, sameShape, type Tensor } from "../core/tensor.ts";
import type { Clock } from "../core/world.ts";
import { inLanes } from "./lanes.ts";
import { partLength, partStart, type StateManifest } from "./manifest.ts";

/** Fills `into` with the part's bytes, verified against its hash. */
export type FetchPart = (hash: Sha256, into: Uint8Array) => Promise<void>;

export interface StateReaderOptions {
  readonly manifest: StateManifest;
  readonly fetchPart: FetchPart;
  readonly clock: Pick<Clock, "monotonicMs">;
  /** Names the state in errors. */
  readonly what: string;
}

export interface WantedTensor {
  readonly name: string;
  readonly shape: Shape;
  /** As many float32 as the shape says. */
  readonly into: Float32Array;
}

interface Place {
  readonly start: number;
  readonly end: number;
  readonly into: Uint8Array;
}

export class StateReader {
  readonly what: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly #options: StateReaderOptions;
  readonly #starts = new Map<string, { readonly start: number; readonly dtype: string; readonly shape: Shape }>();

  constructor(options: StateReaderOptions) {
    const { manifest, what } = options;
    this.what = what;
    this.#options = options;
    this.metadata = manifest.metadata;
    let start = 0;
    for (const { name, dtype, shape } of manifest.tensors) {
      this.#starts.set(name, { start, dtype, shape });
      start += elementBytes(dtype) * elementCount(shape);
    }
  }

  has(name: string): boolean {
    return this.#starts.has(name);
  }

  /** Fails with `data_loss` if a tensor is missing or has another shape; then nothing was fetched. */
  async readInto(wanted: readonly WantedTensor[]): Promise<void> {
    const places = wanted.map((one) => this.#place(one));
    const { manifest, fetchPart, clock } = this.#options;
    const needed = [...manifest.parts.keys()].filter((index) => {
      const first = partStart(manifest, index);
      const last = first + partLength(manifest, index);
      return places.some(({ start, end }) => start < last && end > first && start < end);
    });
    const buffers: ArrayBuffer[] = [];
    try {
      await inLanes(needed, clock, async (index, lane) => {
        buffers[lane] ??= ownPages(Math.min(manifest.partBytes, manifest.bytes));
        const part = new Uint8Array(buffers[lane] as ArrayBuffer, 0, partLength(manifest, index));
        await fetchPart(manifest.parts[index] as Sha256, part);
        scatter(part, partStart(manifest, index), places);
      });
    } finally {
      for (const buffer of buffers) buffer?.resize(0);
    }
  }

  /** Tensors into memory of their own. */
  async read(wanted: readonly Pick<WantedTensor, "name" | "shape">[]): Promise<Map<string, Tensor>> {
    const tensors = new Map(wanted.map(({ name, shape }) => [name, allocate("float32", shape)]));
    await this.readInto(
      Array.from(tensors, ([name, { shape, data }]) => ({ name, shape, into: data as Float32Array })),
    );
    return tensors;
  }

  #place({ name, shape, into }: WantedTensor): Place {
    const found = this.#starts.get(name);
    if (found === undefined) fail("data_loss", `${this.what} has no ${name}`);
    if (found.dtype !== "float32" || !sameShape(found.shape, shape))
      fail("data_loss", `${this.what}: ${name} is ${found.dtype} [${found.shape}], needed float32 [${shape}]`);
    const bytes = bytesOf({ dtype: "float32", shape, data: into });
    return { start: found.start, end: found.start + bytes.byteLength, into: bytes };
  }
}

/** Copies what a part holds of each place; `from` is where the part begins. */
function scatter(part: Uint8Array, from: number, places: readonly Place[]): void {
  const to = from + part.byteLength;
  for (const { start, end, into } of places) {
    const [first, last] = [Math.max(start, from), Math.min(end, to)];
    if (first < last) into.set(part.subarray(first - from, last - from), first - start);
  }
}
