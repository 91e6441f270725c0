// Blobs for a PNode: asks an orchestrator for a short-lived address, moves the bytes itself, and believes only what
// has the right hash. States move part by part: a part that is stored is not sent again, whoever stored it.

import type { Bandwidth } from "../core/bandwidth.ts";
import { type BlobSpaceName, stateManifestBytesMax } from "../core/blobs.ts";
import { DcnrError, fail, hasCode, messageOf } from "../core/errors.ts";
import { type Digest, sha256 } from "../core/hash.ts";
import type { Sha256 } from "../core/ids.ts";
import { retry } from "../core/retry.ts";
import type { World } from "../core/world.ts";
import { tokenizerTextMax } from "../data/bpe/json.ts";
import { manifestBytesMax } from "../data/manifest.ts";
import { BlobSpace } from "../protocol/gen/dcnr/v1/common_pb.ts";
import { BlobAction, type GrantBlobResponse, PNodeService } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { RequestInit } from "../protocol/network.ts";
import { GroupedGrants, type MovedBlob } from "../states/grants.ts";
import { inLanes } from "../states/lanes.ts";
import { partLength, readStateManifest, writeStateManifest } from "../states/manifest.ts";
import { StateReader } from "../states/reader.ts";
import type { BlobOrigins } from "./blob-origins.ts";
import type { BlobCache, BlobTransfer, Timings } from "./options.ts";
import type { Orchestrators } from "./orchestrators.ts";
import type { Snapshot } from "./snapshots.ts";

/** Bytes may be damaged on their way; a blob that comes damaged this often lies damaged. */
const damagedMax = 3;
/** Whoever waits for a state should hear by then why it does not come; it is tried again all the same. */
const downloadPatienceMs = 30_000;

/** Blobs that are at hand without an orchestrator. */
export interface NearBlobs {
  /** Undefined if nobody here or near has it. Not verified. */
  find(
    session: string,
    hash: Sha256,
    room: (bytes: number) => Uint8Array,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined>;
  /** No orchestrator is there for this session: there is no other place to ask. */
  isAlone(session: string): boolean;
}

export interface BlobClientOptions {
  readonly orchestrators: Orchestrators;
  readonly transfer: BlobTransfer;
  readonly origins: BlobOrigins;
  readonly bandwidth: Bandwidth;
  readonly digest: Digest;
  readonly cache?: BlobCache;
  readonly near?: NearBlobs;
  readonly world: World;
  readonly timings: Timings;
}

export class BlobClient {
  readonly #options: BlobClientOptions;

  constructor(options: BlobClientOptions) {
    this.#options = options;
  }

  /** A manifest, or a shard of the size that its manifest names; kept on disk for the next time. */
  async fetch(session: string, hash: Sha256, signal: AbortSignal, bytes?: number): Promise<Uint8Array> {
    const { cache, digest } = this.#options;
    const cached = await cache?.get(hash).catch(() => undefined);
    if (cached !== undefined && (await digest(cached)) === hash) return cached;
    const room = bytes === undefined ? atMost(manifestBytesMax, hash) : exactly(bytes, hash);
    const content = await this.#fetchWhole(session, "datasets", hash, signal, room);
    await cache?.put(hash, content).catch(() => {});
    return content;
  }

  /** The tokenizer.json of a model whose part is served here. */
  async fetchVocabulary(replica: string, hash: Sha256, signal: AbortSignal): Promise<Uint8Array> {
    return this.#fetchWhole(replica, "vocabularies", hash, signal, atMost(tokenizerTextMax, hash));
  }

  /** A state's manifest or part. */
  fetchState(session: string, hash: Sha256, room: Room, signal: AbortSignal): Promise<Uint8Array> {
    return this.#fetchWhole(session, "states", hash, signal, room);
  }

  /** A state of which nothing but the manifest has been read yet; `what` names it in errors. */
  async openState(session: string, state: Sha256, what: string, signal: AbortSignal): Promise<StateReader> {
    const room = atMost(stateManifestBytesMax, state);
    const manifest = readStateManifest(await this.#fetchWhole(session, "states", state, signal, room), what);
    const fetchPart = (hash: Sha256, into: Uint8Array) =>
      this.#persistently(signal, () =>
        this.#download(
          session,
          "states",
          hash,
          signal,
          exactly(into.byteLength, hash, () => into),
        ),
      ).then(() => {});
    return new StateReader({ manifest, fetchPart, clock: this.#options.world.clock, what });
  }

  /** Stores what is not there yet, the manifest last; gives the state's name. One attempt: the next one goes on. */
  async storeState(
    session: string,
    snapshot: Pick<Snapshot, "manifest" | "part">,
    signal: AbortSignal,
  ): Promise<Sha256> {
    const manifest = await snapshot.manifest();
    const text = writeStateManifest(manifest);
    const state = sha256(text);
    const indexes = [...new Map(manifest.parts.map((hash, index) => [hash, index])).values()];
    const parts = indexes.map((index) => ({
      hash: manifest.parts[index] as Sha256,
      bytes: partLength(manifest, index),
    }));
    const whole = { hash: state, bytes: text.byteLength };
    const grants = new GroupedGrants([...parts, whole], (group) => this.#grantUploads(session, group, signal));
    const rooms: Uint8Array[] = [];
    await inLanes([...parts.entries()], this.#options.world.clock, async ([place, blob], lane) => {
      if (signal.aborted) throw new DcnrError("cancelled", "the PNode stops");
      const room = (bytes: number) => {
        rooms[lane] ??= new Uint8Array(manifest.partBytes);
        return (rooms[lane] as Uint8Array).subarray(0, bytes);
      };
      await this.#upload(await grants.of(place), blob, () => snapshot.part(indexes[place] as number, room), signal);
    });
    await this.#upload(await grants.of(parts.length), whole, async () => text, signal);
    return state;
  }

  /** A blob of a session that is no state: a list of messages, or a message that an audit needs. */
  async storeList(session: string, hash: Sha256, content: Uint8Array, signal: AbortSignal): Promise<void> {
    const [store] = await this.grantLists(session, [{ hash, bytes: content.byteLength }], signal);
    await store?.(async () => content);
  }

  /** Leave to store such blobs, asked for in one question: for each, in their order, what stores it. */
  async grantLists(session: string, blobs: readonly MovedBlob[], signal: AbortSignal): Promise<StoreBlob[]> {
    const grants = await this.#grantUploads(session, blobs, signal);
    return grants.map((granted, at) => (read) => this.#upload(granted, blobs[at] as MovedBlob, read, signal));
  }

  /** Such a blob, whole; believed only if it has that hash. */
  fetchList(session: string, hash: Sha256, bytesMax: number, signal: AbortSignal): Promise<Uint8Array> {
    return this.#fetchWhole(session, "states", hash, signal, atMost(bytesMax, hash));
  }

  /**
   * Several such blobs, each as `fetchList` gives it, by its place among them. Leave is asked for in few questions: an interval that is repeated has
   * hundreds of messages.
   */
  openLists(
    session: string,
    hashes: readonly Sha256[],
    bytesMax: number,
    signal: AbortSignal,
  ): (at: number) => Promise<Uint8Array> {
    const blobs = hashes.map((hash) => ({ hash, bytes: 0 }));
    const grants = new GroupedGrants(blobs, (group) => this.#grantDownloads(session, group, signal));
    return (at) => {
      const hash = hashes[at] as Sha256;
      // A grant may have run out by the time that it is used: then, as after any failure, each asks for itself.
      let granted: GrantBlob | undefined = () => grants.of(at);
      return this.#persistently(signal, () => {
        const first = granted;
        granted = undefined;
        const alone = () => this.#download(session, "states", hash, signal, atMost(bytesMax, hash));
        if (first === undefined) return alone();
        return this.#download(session, "states", hash, signal, atMost(bytesMax, hash), first).catch(alone);
      });
    };
  }

  /** Nothing where that fails, or for what is not there: whoever asks for that alone is told why. */
  async #grantDownloads(
    session: string,
    [first, ...others]: readonly MovedBlob[],
    signal: AbortSignal,
  ): Promise<readonly (Granted | undefined)[]> {
    const more = others.map(({ hash }) => ({ hash, bytes: 0n }));
    const kind = { session, action: BlobAction.DOWNLOAD, space: BlobSpace.STATES };
    const request = { ...kind, hash: (first as MovedBlob).hash, bytes: 0n, more };
    try {
      const { answer, address } = await this.#askToDownload(request, signal);
      return [answer, ...answer.more].map((grant) => (grant.present ? { grant, granter: address } : undefined));
    } catch {
      return [];
    }
  }

  /** One for each blob, in their order, all of one orchestrator's. */
  async #grantUploads(
    session: string,
    [first, ...others]: readonly MovedBlob[],
    signal: AbortSignal,
  ): Promise<Granted[]> {
    const { hash, bytes } = first as MovedBlob;
    const more = others.map((blob) => ({ hash: blob.hash, bytes: BigInt(blob.bytes) }));
    const kind = { session, action: BlobAction.UPLOAD, space: BlobSpace.STATES };
    const request = { ...kind, hash, bytes: BigInt(bytes), more };
    const { answer, address } = await this.#options.orchestrators.ask(PNodeService.method.grantBlob, request, signal);
    const granted = [answer, ...answer.more.slice(0, others.length)].map((grant) => ({ grant, granter: address }));
    // An orchestrator of an older build grants one at a time.
    for (const blob of others.slice(granted.length - 1))
      granted.push(...(await this.#grantUploads(session, [blob], signal)));
    return granted;
  }

  async #upload(
    { grant, granter }: Granted,
    { hash, bytes }: MovedBlob,
    read: () => Promise<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const { transfer, origins, bandwidth } = this.#options;
    if (grant.present) return;
    const address = origins.place(grant, granter);
    await bandwidth.take(bytes, signal);
    const content = await read();
    await transfer.upload(address, content, signal).catch((error: unknown) => {
      // A full disk or bits that flipped on the way: sending it once more is all that can be done here.
      throw new DcnrError("unavailable", `blob ${hash} was not stored: ${messageOf(error)}`, { cause: error });
    });
  }

  #fetchWhole(
    session: string,
    space: ReadableSpace,
    hash: Sha256,
    signal: AbortSignal,
    room: Room,
  ): Promise<Uint8Array> {
    return this.#persistently(signal, () => this.#download(session, space, hash, signal, room));
  }

  async #download(
    session: string,
    space: ReadableSpace,
    hash: Sha256,
    signal: AbortSignal,
    into: Room,
    granted?: GrantBlob,
  ): Promise<Uint8Array> {
    const { transfer, origins, digest, near } = this.#options;
    const found = await near?.find(session, hash, into, signal);
    if (found !== undefined && (await digest(found)) === hash) return found;
    if (near?.isAlone(session)) fail("unavailable", `no orchestrator is there, and nobody who is has blob ${hash}`);
    const { grant, granter } = (await granted?.()) ?? (await this.#grantDownload(session, space, hash, signal));
    const address = origins.place(grant, granter);
    const content = into(Number(grant.bytes));
    await transfer.download(address, content, signal);
    if ((await digest(content)) !== hash) fail("data_loss", `blob ${hash} came damaged`);
    return content;
  }

  async #grantDownload(session: string, space: ReadableSpace, hash: Sha256, signal: AbortSignal): Promise<Granted> {
    const request = { session, hash, bytes: 0n, action: BlobAction.DOWNLOAD, space: wireSpace[space] };
    const { answer, address } = await this.#askToDownload(request, signal);
    return { grant: answer, granter: address };
  }

  #askToDownload(request: RequestInit<typeof PNodeService.method.grantBlob>, signal: AbortSignal) {
    const { orchestrators, near } = this.#options;
    // Orchestrators may all go while one is asked: then others are asked instead.
    const attempts = near === undefined ? Number.POSITIVE_INFINITY : 2 * orchestrators.count;
    return orchestrators.ask(PNodeService.method.grantBlob, request, signal, attempts);
  }

  /** As long as the failures say that they pass: parts that came already stay, so that this beats beginning anew. */
  #persistently<Result>(signal: AbortSignal, attempt: () => Promise<Result>): Promise<Result> {
    const { timings, world } = this.#options;
    let damaged = 0;
    const patience = {
      minMs: timings.retryMinMs,
      maxMs: timings.retryMaxMs,
      patienceMs: downloadPatienceMs,
      rounds: 1,
    };
    return retry({ world, ...patience, signal }, async () => {
      try {
        return await attempt();
      } catch (error) {
        if (hasCode(error, "data_loss") && ++damaged < damagedMax)
          throw new DcnrError("unavailable", messageOf(error), { cause: error });
        throw DcnrError.from(error, "unavailable");
      }
    });
  }
}

/** One attempt; what is stored already is not read. */
export type StoreBlob = (read: () => Promise<Uint8Array>) => Promise<void>;

/** With the address of the orchestrator that granted it. */
interface Granted {
  readonly grant: GrantBlobResponse;
  readonly granter: string;
}

/** Leave to download one, asked for with others; undefined if it has to be asked for alone. */
type GrantBlob = () => Promise<Granted | undefined>;

/** Given the size that an orchestrator says: makes room for it, or has room for what it should be. */
type Room = (bytes: number) => Uint8Array;

function atMost(bytesMax: number, hash: Sha256): Room {
  return (bytes) =>
    bytes <= bytesMax
      ? new Uint8Array(bytes)
      : fail("resource_exhausted", `blob ${hash} has ${bytes} bytes, at most ${bytesMax} are taken`);
}

/** Nothing is taken of a blob that cannot be the one that is named. */
function exactly(expected: number, hash: Sha256, make: () => Uint8Array = () => new Uint8Array(expected)): Room {
  return (bytes) =>
    bytes === expected
      ? make()
      : fail("data_loss", `blob ${hash} has ${bytes} bytes, the manifest that names it says ${expected}`);
}

type ReadableSpace = Extract<BlobSpaceName, "states" | "datasets" | "vocabularies">;

const wireSpace: Readonly<Record<ReadableSpace, BlobSpace>> = {
  states: BlobSpace.STATES,
  datasets: BlobSpace.DATASETS,
  vocabularies: BlobSpace.VOCABULARIES,
};
