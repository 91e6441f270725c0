// What a PNode is told when it starts, and what it needs from the machine. All of it is injected, so that the same
// code runs on real machines and in the simulator.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Aside } from "../core/aside.ts";
import type { ContentHash, Digest } from "../core/hash.ts";
import type { KeyId, Sha256 } from "../core/ids.ts";
import type { Verify } from "../core/keys.ts";
import type { World } from "../core/world.ts";
import type { CrewRules } from "../crew/crew.ts";
import type { EngineKind, Executor } from "../engine/engine.ts";
import type { MembershipOptions } from "../membership/membership.ts";
import type { Capabilities, CapabilitiesSchema, LimitsSchema } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { HttpHandler, Network } from "../protocol/network.ts";
import type { RelayLimits } from "../relay/limits.ts";
import type { Signing } from "../trust/signing.ts";
import type { OpenProcess } from "../vnode/process.ts";
import type { Room } from "./room.ts";
import type { CheckServed } from "./serving/serving-context.ts";
import type { CheckSession } from "./session-context.ts";

export interface PNodeOptions {
  readonly name: string;
  /** Version of the software, for people. */
  readonly software: string;
  /** "host:port#key" of at least one orchestrator, with the network's key; the others are learned. */
  readonly orchestrators: readonly string[];
  /** Lets it join a network that is not open to everybody. */
  readonly invite?: string;
  /** Milliseconds since its owner examined the machine and found nothing, when it is asked. */
  readonly examinedMsAgo?: () => number | undefined;
  /** Where to listen for peers. */
  readonly listen: string;
  /** What peers are told first, before the bound address, for machines behind a name or a forwarded port. */
  readonly advertise?: string;
  /** It relays for others, within these limits. */
  readonly relay?: RelayLimits;
  /** A browser: nobody can connect to it, and callers at relays prove their keys by our own handshake, not by TLS. */
  readonly onlyByRelays?: boolean;
  readonly owner?: string;
  readonly region?: string;
  readonly provider?: string;
  readonly pricePerHour?: number;
  readonly limits?: MessageInitShape<typeof LimitsSchema>;
  /** Version of the bits that the executors compute; this build's, unless the executors are others. */
  readonly bits?: number;
  /** Of the answers that they give for served models, likewise. */
  readonly answerBits?: number;
  readonly capabilities: Exclude<MessageInitShape<typeof CapabilitiesSchema>, Capabilities>;
  readonly bounds?: Partial<Bounds>;
  readonly timings?: Partial<Timings>;
  /** All PNodes of a network cut states alike; only tests cut smaller parts than others. */
  readonly statePartBytes?: number;
}

export interface BlobAddress {
  readonly url: string;
  /** Whoever answers there must hold it. */
  readonly key?: KeyId;
  /** Or show a certificate of the web for the address' name: a proxy before it may end TLS. */
  readonly orWeb?: boolean;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Moves blobs by short-lived addresses; the PNode holds no credentials. A transfer may take as long as it likes while
 * bytes move, and fails with `unavailable` when they do not. Sends no headers but those of the address.
 */
export interface BlobTransfer {
  upload(to: BlobAddress, content: Uint8Array, signal?: AbortSignal): Promise<void>;
  /** Fills `into` exactly: an answer of another length is `data_loss`. Whether it is the right one, hashes tell. */
  download(from: BlobAddress, into: Uint8Array, signal?: AbortSignal): Promise<void>;
}

/** A place on disk for what does not fit into memory. Lost with the process: nothing in it must survive. */
export interface SpillStorage {
  write(key: string, content: Uint8Array): Promise<void>;
  /** Into `room` if given, which has the content's size; else into memory of its own. */
  read(key: string, room?: Uint8Array): Promise<Uint8Array>;
  remove(key: string): Promise<void>;
}

/** A place on disk that outlives the process: charters, and states that are kept for others. Writes are whole or not at all. */
export interface KeptStorage {
  list(): Promise<readonly string[]>;
  read(name: string): Promise<Uint8Array | undefined>;
  write(name: string, content: Uint8Array): Promise<void>;
  remove(name: string): Promise<void>;
  /** What of the lent disk is left; absent where nobody has said how much it is. */
  freeBytes?(): number;
}

/** Blobs on local disk, so that shards are fetched once. */
export interface BlobCache {
  get(hash: Sha256): Promise<Uint8Array | undefined>;
  put(hash: Sha256, content: Uint8Array): Promise<void>;
}

/** One piece of a VNode's numerics, for metrics and traces. */
export interface PerformedWork {
  readonly kind: string;
  readonly session: string;
  readonly vnode: string;
  readonly step: number;
  readonly microbatch?: number;
  readonly startWallMs: number;
  readonly durationMs: number;
  readonly failure?: string;
}

/**
 * Tells the orchestrator that this process lives, from a thread that never waits for the others. It goes on while the
 * PNode's stream is broken, and until the PNode is registered elsewhere.
 */
export interface Pulse {
  /** From now on to this orchestrator, in the name of this attachment. */
  follow(orchestrator: string, token: string, intervalMs: number): void;
  /** When an orchestrator last answered it, on the world's monotonic clock. */
  readonly heardMs: number;
  stop(): void;
}

/** What membership needs of the machine. */
export type MembershipDependencies = Pick<MembershipOptions, "identity" | "keys" | "file" | "timings" | "openGossip">;

export interface PNodeDependencies {
  readonly world: World;
  /** Shows the PNode's key, whose id is the PNode's. */
  readonly network: Network;
  /** The executor for an engine, with as many workers as the owner lends cores; the same one at every call. */
  executorFor(engine: EngineKind): Promise<Executor>;
  readonly blobs: BlobTransfer;
  /** Hashes large contents on another thread; on this one if absent. */
  readonly digest?: Digest;
  /** Names messages; on this thread if absent. */
  readonly hashOf?: ContentHash;
  /** Of blobs that were received; else as all others. */
  readonly digestReceived?: Digest;
  /** Reads definitions and builds graphs on another thread; on this one if absent. */
  readonly aside?: Aside;
  readonly pulse?: Pulse;
  readonly spill?: SpillStorage;
  readonly cache?: BlobCache;
  /** In memory if absent: what this PNode keeps for others then ends with it. */
  readonly kept?: KeptStorage;
  /** Judges signatures of charters; without it no session goes on without orchestrators here. */
  readonly verify?: Verify;
  /** What a crew decides by; the production rules if absent. */
  readonly crewRules?: CrewRules;
  /** Signs with the PNode's key; without it no VNode of a session that is checked is hosted. */
  readonly signing?: Signing;
  /** How VNodes decide what to do next; the production process if absent. */
  openProcess?: OpenProcess;
  /** Refuses sessions that are not what their ids say; the production check if absent. */
  checkSession?: CheckSession;
  /** Refuses replicas of served models likewise; the production check if absent. */
  checkServed?: CheckServed;
  /** Counts what VNodes take of the memory that is lent; the production count if absent. */
  openRoom?(lentBytes: number): Room;
  /** Takes part in gossip with this; unknown to other members if absent. */
  readonly membership?: MembershipDependencies;
  /** Served on the PNode's port beside the exchange: metrics and probes. */
  readonly http?: HttpHandler;
  /** Told that its GPU gives other bits in a session's graphs than others of its class, and the hash of what it gives. */
  onOtherBits?(tried: string, engine: EngineKind): void;
  /** Told of each piece of numerics when it has ended. */
  onWork?(work: PerformedWork): void;
  /** Where peers reach a server of this machine that is bound to an address, as seen on the way to an orchestrator. */
  reachable?(bound: string, orchestrator: string): Promise<string>;
  /** Hour of the day where the owner lives, 0 to 23; needed for `hours`. */
  localHour?(): number;
  /** Whether the owner lends the machine now, beside the hours; always if absent. */
  lends?(): boolean;
  /** Gives memory back that is left of what was loaded. */
  tidy?(): void;
  /** Readings for heartbeats. */
  measure?(): {
    readonly load?: number;
    readonly temperatureCelsius?: number;
    readonly memoryUsedBytes?: number;
    /** In the order of its capabilities' GPUs. */
    readonly gpus?: readonly GpuReadings[];
  };
}

/** How a GPU is now; what the system does not tell is absent. */
export interface GpuReadings {
  readonly use?: number;
  readonly memoryUsedBytes?: number;
  readonly temperatureCelsius?: number;
}

export interface Bounds {
  /** Retained messages in memory; the oldest beyond it go to disk. */
  readonly retainedBytesMax: number;
  /** Retained messages on disk; beyond it VNodes slow down and say so. */
  readonly spilledBytesMax: number;
  /** Shards of datasets in memory. */
  readonly shardBytesMax: number;
  /** Snapshots that wait for their upload, per VNode. */
  readonly snapshotBytesMax: number;
  /** A larger state is not copied for its upload, but cut on disk while the next update waits. */
  readonly copyBytesMax: number;
}

export const boundsDefault: Bounds = {
  retainedBytesMax: 256 << 20,
  spilledBytesMax: 2 ** 31,
  shardBytesMax: 128 << 20,
  snapshotBytesMax: 512 << 20,
  // Copying that much takes this thread some 20 ms.
  copyBytesMax: 64 << 20,
};

/** Shares of what the owner lends; weights and activations take the rest. 0: no limit. */
export function boundsWithin(memoryBytes: number, diskBytes: number): Bounds {
  const share = (bytes: number, part: number, of = memoryBytes) =>
    of <= 0 ? bytes : Math.min(bytes, Math.floor(of * part));
  return {
    // A quarter of the disk is for shards, one for states of others; what is left is for states on their way to the store.
    spilledBytesMax: share(boundsDefault.spilledBytesMax, 0.35, diskBytes),
    retainedBytesMax: share(boundsDefault.retainedBytesMax, 0.15),
    shardBytesMax: share(boundsDefault.shardBytesMax, 0.1),
    snapshotBytesMax: share(boundsDefault.snapshotBytesMax, 0.15),
    copyBytesMax: share(boundsDefault.copyBytesMax, 0.05),
  };
}

export interface Timings {
  /** Until an orchestrator says otherwise. */
  readonly heartbeatIntervalMs: number;
  /** An orchestrator that does not answer within this is passed over; after each failure it has longer. */
  readonly registerTimeoutMs: number;
  /** Without an answer to heartbeats for this long, the next orchestrator is tried; later if it was late before. */
  readonly silentMs: number;
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
  /** A missing input is asked for after this; each further ask waits twice as long, up to the next. */
  readonly askMinMs: number;
  readonly askMaxMs: number;
  readonly callTimeoutMs: number;
  /** How long a leaving PNode waits until its VNodes are handed over. */
  readonly leaveTimeoutMs: number;
  /** Between two rounds of news in a crew. */
  readonly tellMs: number;
  /** One of the crew of whom nobody heard for this long is gone. */
  readonly crewSilentMs: number;
  /** Without an orchestrator for this long a crew goes on by itself. */
  readonly aloneMs: number;
  /** The same where nobody listens any more at any orchestrator's address. */
  readonly aloneAtOnceMs: number;
  /** Each successor of a VNode waits this much longer than the one before it. */
  readonly staggerMs: number;
}

export const timingsDefault: Timings = {
  heartbeatIntervalMs: 1_000,
  registerTimeoutMs: 900,
  silentMs: 3_000,
  retryMinMs: 50,
  retryMaxMs: 2_000,
  askMinMs: 150,
  askMaxMs: 2_000,
  callTimeoutMs: 5_000,
  leaveTimeoutMs: 15_000,
  tellMs: 400,
  // Four rounds of news.
  crewSilentMs: 1_600,
  // Twice the silence by which an orchestrator is given up: one that restarts is back by then.
  aloneMs: 6_000,
  // Somebody else who still hears one tells so within a heartbeat and a round of news.
  aloneAtOnceMs: 2_000,
  staggerMs: 150,
};
