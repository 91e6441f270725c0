// A VNode's state as it was after one step, for as long as it takes to store it. A small one is copied, some megabytes at
// a time so that nothing else has to wait, and training goes on. A large one is cut into parts on disk, a part in memory at a time, while the next update waits:
// otherwise a machine would need its memory twice.

import { assert } from "../core/assert.ts";
import type { Digest } from "../core/hash.ts";
import { sleep, type World } from "../core/world.ts";
import { cutState, describeImage, piecesOf, type StateImage } from "../states/cut.ts";
import { partLength, partStart, type StateDescription, type StateManifest, stateBytesOf } from "../states/manifest.ts";
import type { SpillStorage } from "./options.ts";

export interface SnapshotOptions {
  readonly world: Pick<World, "timers">;
  readonly digest: Digest;
  readonly partBytes: number;
  /** Larger states are not copied at once. */
  readonly copyBytesMax: number;
  /** Without it, large states are kept in memory. */
  readonly storage?: SpillStorage;
  /** Unique on this PNode. */
  readonly name: string;
}

/** Whoever takes one releases it. */
export interface Snapshot {
  readonly bytes: number;
  /** Settles when the memory it was taken from may change again. */
  readonly taken: Promise<unknown>;
  manifest(): Promise<StateManifest>;
  /** The part's bytes; those that lie on disk are read into the room given. */
  part(index: number, room: (bytes: number) => Uint8Array): Promise<Uint8Array>;
  release(): Promise<void>;
}

export function takeSnapshot(image: StateImage, options: SnapshotOptions): Snapshot {
  const description = describeImage(image);
  const bytes = stateBytesOf(description.tensors);
  return bytes <= options.copyBytesMax
    ? new CopiedState(description, image, bytes, options)
    : new CutState(description, image, bytes, options);
}

/** A few milliseconds of copying. */
const copyBytes = 4 << 20;

async function copyOf(image: StateImage, into: Uint8Array, { timers }: Pick<World, "timers">): Promise<void> {
  let at = 0;
  let sinceTurn = 0;
  for (const piece of piecesOf(image))
    for (let from = 0; from < piece.byteLength; from += copyBytes) {
      const some = piece.subarray(from, from + copyBytes);
      into.set(some, at);
      at += some.byteLength;
      sinceTurn += some.byteLength;
      if (sinceTurn < copyBytes || at === into.byteLength) continue;
      sinceTurn = 0;
      await sleep(timers, 0);
    }
}

class CopiedState implements Snapshot {
  readonly bytes: number;
  readonly taken: Promise<void>;
  readonly #description: StateDescription;
  readonly #options: SnapshotOptions;
  #content: Uint8Array;
  #manifest: Promise<StateManifest> | undefined;

  constructor(description: StateDescription, image: StateImage, bytes: number, options: SnapshotOptions) {
    this.bytes = bytes;
    this.#description = description;
    this.#content = new Uint8Array(bytes);
    this.#options = options;
    this.taken = copyOf(image, this.#content, options.world);
  }

  manifest(): Promise<StateManifest> {
    const { partBytes, digest } = this.#options;
    this.#manifest ??= this.taken.then(() =>
      cutState(this.#description, [this.#content], { partBytes, digest, onPart: () => {} }),
    );
    return this.#manifest;
  }

  async part(index: number): Promise<Uint8Array> {
    const manifest = await this.manifest();
    const start = partStart(manifest, index);
    return this.#content.subarray(start, start + partLength(manifest, index));
  }

  async release(): Promise<void> {
    await this.taken;
    this.#content = new Uint8Array();
  }
}

class CutState implements Snapshot {
  readonly bytes: number;
  readonly taken: Promise<StateManifest>;
  readonly #options: SnapshotOptions;
  /** Parts that no disk took. */
  readonly #kept = new Map<number, Uint8Array>();
  readonly #onDisk = new Set<number>();

  constructor(description: StateDescription, image: StateImage, bytes: number, options: SnapshotOptions) {
    this.bytes = bytes;
    this.#options = options;
    this.taken = cutState(description, piecesOf(image), { ...options, onPart: (part) => this.#keep(part) });
    // Whoever asks for the manifest hears of a failure.
    this.taken.catch(() => {});
  }

  manifest(): Promise<StateManifest> {
    return this.taken;
  }

  async part(index: number, room: (bytes: number) => Uint8Array): Promise<Uint8Array> {
    const kept = this.#kept.get(index);
    if (kept) return kept;
    const { storage } = this.#options;
    assert(storage !== undefined && this.#onDisk.has(index), "a part is in memory or on disk");
    return storage.read(this.#key(index), room(partLength(await this.taken, index)));
  }

  async release(): Promise<void> {
    await this.taken.catch(() => {});
    this.#kept.clear();
    for (const index of this.#onDisk) await this.#options.storage?.remove(this.#key(index)).catch(() => {});
    this.#onDisk.clear();
  }

  async #keep({ index, content }: { readonly index: number; readonly content: Uint8Array }): Promise<void> {
    const { storage, world } = this.#options;
    try {
      if (storage === undefined) {
        this.#kept.set(index, content.slice());
        await sleep(world.timers, 0);
        return;
      }
      await storage.write(this.#key(index), content);
      this.#onDisk.add(index);
    } catch {
      // A full disk costs memory, not the state.
      this.#kept.set(index, content.slice());
    }
  }

  #key(index: number): string {
    return `${this.#options.name}/part-${index}`;
  }
}
