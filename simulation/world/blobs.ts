// The shared BlobStore as each simulated orchestrator sees it: writes that fail before or after they took
// effect, reads that come back damaged, and blobs that rot where they lie.

import type { BlobSpaceName } from "../../src/core/blobs.ts";
import { DcnrError } from "../../src/core/errors.ts";
import type { Sha256 } from "../../src/core/ids.ts";
import {
  type BlobAction,
  type BlobGrant,
  type BlobRange,
  type BlobSpace,
  type BlobStore,
  type StoredBlob,
  spacesOf,
} from "../../src/store/blobs/blob-store.ts";
import { BlobTokens } from "../../src/store/blobs/blob-tokens.ts";
import { openMemoryBlobs } from "../../src/store/memory.ts";
import { epochWallMs, type Host, type SimulatedWorld } from "./world.ts";

export interface BlobFaults {
  /** Of a write that fails; half of those took effect nevertheless. */
  writeFailed: number;
  /** Of a bit that flips on the way in or out; hashes reveal it. */
  flipped: number;
  /** Of a read that finds nothing for the moment. */
  readFailed: number;
}

export const noBlobFaults: BlobFaults = { writeFailed: 0, flipped: 0, readFailed: 0 };

export class SimulatedBlobs {
  readonly world: SimulatedWorld;
  readonly inner: BlobStore;
  faults: BlobFaults = noBlobFaults;
  /** Blobs that lie damaged; writing them again heals them. */
  readonly damaged = new Set<Sha256>();

  constructor(world: SimulatedWorld) {
    this.world = world;
    this.inner = openMemoryBlobs({ clock: { wallMs: () => epochWallMs + world.time.nowMs } });
  }

  view(host: Host, baseUrl: () => string): BlobStore {
    const key = new TextEncoder().encode("simulation");
    const tokens = new BlobTokens({ key, clock: host.world.clock, baseUrl });
    const spaces = spacesOf((name) => new SpaceView(name, this, host, tokens));
    return { ...spaces, tokens, origins: () => tokens.origins(), close: async () => {} };
  }

  /** Flips a bit of a stored blob for good: every reader sees the damage from now on. */
  damage(hash: Sha256): void {
    this.damaged.add(hash);
    this.world.trace.fault(this.world.time.nowMs, "blob damaged", "blobs", hash.slice(0, 12));
  }
}

class SpaceView implements BlobSpace {
  readonly #name: BlobSpaceName;
  readonly #blobs: SimulatedBlobs;
  readonly #host: Host;
  readonly #tokens: BlobTokens;

  constructor(name: BlobSpaceName, blobs: SimulatedBlobs, host: Host, tokens: BlobTokens) {
    this.#name = name;
    this.#blobs = blobs;
    this.#host = host;
    this.#tokens = tokens;
  }

  get #inner(): BlobSpace {
    return this.#blobs.inner[this.#name];
  }

  async put(hash: Sha256, content: Uint8Array | AsyncIterable<Uint8Array>, bytes: number): Promise<void> {
    await this.#wait();
    const { faults, damaged } = this.#blobs;
    if (this.#strikes("flipped", "blob flipped on the way in", hash))
      throw new DcnrError("data_loss", `what was sent as blob ${hash} hashes to something else: send it again`);
    const fails = this.#strikes("writeFailed", "blob write failed", hash);
    if (fails && faults.writeFailed > 0 && this.#blobs.world.chance.happens(0.5)) throw unavailable(hash);
    await this.#inner.put(hash, content, bytes);
    damaged.delete(hash);
    if (fails) throw unavailable(hash);
  }

  async get(hash: Sha256, range?: BlobRange): Promise<Uint8Array> {
    await this.#wait();
    this.#checkRead(hash);
    return this.#inner.get(hash, range);
  }

  async *stream(hash: Sha256, range?: BlobRange): AsyncIterable<Uint8Array> {
    yield await this.get(hash, range);
  }

  async size(hash: Sha256): Promise<number | undefined> {
    await this.#wait();
    return this.#inner.size(hash);
  }

  async delete(hash: Sha256): Promise<void> {
    await this.#wait();
    await this.#inner.delete(hash);
  }

  list(): AsyncIterable<StoredBlob> {
    return this.#inner.list();
  }

  async grant(action: BlobAction, hash: Sha256, bytes: number, lifetimeMs: number): Promise<BlobGrant> {
    return this.#tokens.grant(this.#name, action, hash, bytes, lifetimeMs);
  }

  #checkRead(hash: Sha256): void {
    if (this.#blobs.damaged.has(hash))
      throw new DcnrError("data_loss", `blob ${hash} is damaged: upload it again or restore it from a copy`);
    if (this.#strikes("flipped", "blob flipped on the way out", hash))
      throw new DcnrError("data_loss", `blob ${hash} came damaged: read it again`);
    if (this.#strikes("readFailed", "blob read failed", hash)) throw unavailable(hash);
  }

  #strikes(kind: keyof BlobFaults, name: string, hash: Sha256): boolean {
    const { world, faults } = this.#blobs;
    if (!world.chance.happens(faults[kind])) return false;
    world.trace.fault(world.time.nowMs, name, this.#host.name, hash.slice(0, 12));
    return true;
  }

  #wait(): Promise<void> {
    const delayMs = this.#blobs.world.chance.between(0.5, 4) * this.#host.slowness;
    return new Promise((resolve) => this.#host.after(delayMs, resolve));
  }
}

function unavailable(hash: Sha256): DcnrError {
  return new DcnrError("unavailable", `the blob store did not answer for ${hash}: try again`);
}
