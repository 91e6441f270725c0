// Starts production orchestrators and PNodes on simulated hosts. What a process keeps on its disk survives its
// crash here; everything else it has to find again by itself.

import { answerBits } from "../src/core/bits.ts";
import { codeOfBlobRefusal } from "../src/core/blobs.ts";
import { DcnrError } from "../src/core/errors.ts";
import type { Sha256 } from "../src/core/ids.ts";
import { crewRules } from "../src/crew/crew.ts";
import { openInlineExecutor } from "../src/engine/executor.ts";
import { openReferenceEngine } from "../src/engine/reference.ts";
import { startOrchestrator } from "../src/orchestrator/orchestrator.ts";
import type {
  BlobAddress,
  BlobCache,
  BlobTransfer,
  KeptStorage,
  PerformedWork,
  SpillStorage,
} from "../src/pnode/options.ts";
import { startPNode } from "../src/pnode/pnode.ts";
import type { Room } from "../src/pnode/room.ts";
import { withKey } from "../src/protocol/routes/address.ts";
import { routedNetwork } from "../src/protocol/routes/routed-network.ts";
import { tensorsToo } from "../src/relay/limits.ts";
import type { Records } from "./checks/records.ts";
import { type Build, commonClass, usualBuild } from "./draw.ts";
import {
  type Behaviour,
  claimedGflops,
  executorOf,
  networkOf,
  ownerOf,
  transferOf,
  type Whispers,
} from "./lies/byzantine.ts";
import type { Mutant } from "./mutants/mutant.ts";
import type { SimulatedBlobs } from "./world/blobs.ts";
import { computingLike, simulatedExecutor } from "./world/executor.ts";
import type { Fabric, SimulatedNetwork } from "./world/network.ts";
import { keysSimulated, networkIdentity, networkKey, pnodeIdentity, verifySimulated } from "./world/network-key.ts";
import { signAs, verifyStatement } from "./world/signing.ts";
import type { SimulatedStore } from "./world/store.ts";
import type { Host, SimulatedWorld } from "./world/world.ts";

export interface Site {
  readonly world: SimulatedWorld;
  readonly fabric: Fabric;
  readonly store: SimulatedStore;
  readonly blobs: SimulatedBlobs;
  readonly records: Records;
  /** Of all orchestrators. */
  readonly addresses: readonly string[];
  /** Of PNodes that differ from the usual one. */
  readonly builds: ReadonlyMap<string, Build>;
  readonly behaviours: ReadonlyMap<string, Behaviour>;
  /** Who relays tensors for others. */
  readonly relays: readonly string[];
  /** Among machines that lie together. */
  readonly whispers: Whispers;
  readonly computeMs: number;
  readonly workers?: number | undefined;
  readonly statePartBytes?: number | undefined;
  /** Small enough that retained messages are spilled now and then. */
  readonly retainedBytesMax: number;
  /** States beyond it are cut on the simulated disk. */
  readonly copyBytesMax: number;
  readonly vnodesPerPNode: number;
  readonly mutant: Mutant | undefined;
  /** What survives a crash, by host: shards, and what is kept for others. */
  readonly disks: Map<string, Map<Sha256, Uint8Array>>;
  readonly keptDisks: Map<string, Map<string, Uint8Array>>;
  /** Whether a disk is full for that file. */
  readonly refusesKept?: (host: string, name: string) => boolean;
  readonly running: Map<string, Running>;
  /** A PNode has computed something. */
  readonly onWork: (host: string, work: PerformedWork) => void;
}

/** What the simulator needs of a running process. */
export interface Running {
  /** Asks it to leave in good order. */
  leave(): Promise<void>;
  /** Gives back what the real system would free after a crash. */
  free(): void;
}

/** What an orchestrator counts on for a PNode's own needs, and for one of the simulator's VNodes, with some room. */
const reservedBytes = 128 << 20;
const vnodeBytes = 4_400_000;

export function addressOf(name: string): string {
  return `${name}.test:7400`;
}

/** Starts what the name says: `o…` is an orchestrator, `p…` a PNode. */
export function startHost(site: Site, name: string): void {
  const host = site.world.start(name);
  site.running.get(name)?.free();
  const starting = name.startsWith("o") ? bootOrchestrator(site, host) : bootPNode(site, host);
  starting.catch((error) => {
    if (host.alive) site.world.failures.push({ host: name, atMs: site.world.time.nowMs, error });
  });
}

/** Worlds end after seconds to minutes; so that old states are deleted in them, that does not wait for a minute. */
const timings = { garbageDelayMs: 8_000 };

function relayOf({ relays }: Site, { name }: Host) {
  return relays.includes(name) && { relay: tensorsToo(0) };
}

/**
 * Who is there, told from member to member: where PNodes relay, since without orchestrators they know by it for whom. Others do
 * without, so that most worlds are not full of it (membership/ has worlds of its own).
 */
function membershipOf(site: Site, { name }: Host) {
  if (!site.relays.some((relay) => relay.startsWith("p"))) return {};
  const files = site.keptDisks.get(name) ?? new Map<string, Uint8Array>();
  site.keptDisks.set(name, files);
  const identity = name.startsWith("o") ? networkIdentity : pnodeIdentity(name);
  const file = {
    read: async () => files.get(membersFile)?.slice(),
    write: async (content: Uint8Array) => void files.set(membersFile, content.slice()),
  };
  return { membership: { identity, keys: keysSimulated, file } };
}

const membersFile = "members";

async function bootOrchestrator(site: Site, host: Host): Promise<void> {
  const address = addressOf(host.name);
  const view = site.store.view(host);
  const blobs = site.blobs.view(host, () => "");
  site.running.set(host.name, { leave: async () => {}, free: () => {} });
  await startOrchestrator(
    { listen: address, software: "simulated", id: host.name, timings, ...relayOf(site, host) },
    {
      world: host.world,
      network: routedNetwork(site.fabric.network(host, networkKey), host.world),
      identity: networkIdentity,
      store: site.mutant?.store?.(view, site.records, blobs) ?? view,
      blobs: site.mutant?.blobs?.(blobs) ?? blobs,
      verify: verifyStatement,
      ...membershipOf(site, host),
    },
  );
}

async function bootPNode(site: Site, host: Host): Promise<void> {
  const wires = site.fabric.network(host);
  const network = routedNetwork(wires, host.world);
  const { mutant } = site;
  const build = site.builds.get(host.name) ?? usualBuild;
  const { bits, numericsClass, common = false } = build;
  const behaviour = site.behaviours.get(host.name);
  const opened = (own: Build) => {
    const built = openInlineExecutor(computingLike(own, openReferenceEngine()));
    return executorOf(behaviour, mutant?.executor?.(built, host) ?? built, host);
  };
  const inner = opened(build);
  const alike = common ? opened({ bits, numericsClass: commonClass }) : undefined;
  const transfer = transferOf(behaviour, transferOver(wires));
  const times = { runMs: site.computeMs, kernelMs: site.computeMs / 20, workers: site.workers };
  const executor = simulatedExecutor(inner, host, times);
  const portable = alike && simulatedExecutor(alike, host, times);
  let leave = async () => {};
  site.running.set(host.name, { leave: () => leave(), free: () => void Promise.all([inner.close(), alike?.close()]) });
  const pnode = await startPNode(
    {
      name: host.name,
      software: "simulated",
      orchestrators: site.addresses.map((address) => withKey(address, networkKey)),
      listen: addressOf(host.name),
      ...relayOf(site, host),
      owner: ownerOf(behaviour, host.name),
      capabilities: {
        cores: 2,
        memoryBytes: 4n << 30n,
        gflops: claimedGflops(behaviour),
        architecture: "x64",
        platform: "simulated",
        numerics: [
          { engine: "reference", class: numericsClass },
          ...(common ? [{ engine: "portable", class: commonClass }] : []),
        ],
      },
      bits,
      // Another release answers otherwise, too.
      ...(bits !== usualBuild.bits && { answerBits: answerBits + 1 }),
      limits: { memoryBytes: BigInt(reservedBytes + vnodeBytes * site.vnodesPerPNode) },
      bounds: { retainedBytesMax: site.retainedBytesMax, copyBytesMax: site.copyBytesMax },
      // Small enough that the states of the simulator have several.
      statePartBytes: site.statePartBytes ?? 512,
    },
    {
      world: host.world,
      network: networkOf(behaviour, mutant?.network?.(network) ?? network, host, site.whispers),
      signing: signAs(host.name),
      executorFor: async (engine) => (engine === "portable" ? (portable ?? executor) : executor),
      blobs: mutant?.transfer?.(transfer, host) ?? transfer,
      ...(mutant?.process && { openProcess: mutant.process }),
      ...(mutant?.checkSession && { checkSession: mutant.checkSession }),
      ...(mutant?.checkServed && { checkServed: mutant.checkServed }),
      ...(mutant?.room && { openRoom: (lentBytes: number) => mutant.room?.(host.world, lentBytes) as Room }),
      spill: diskOf(host),
      cache: cacheOf(site, host),
      kept: keptOf(site, host),
      onWork: (work) => site.onWork(host.name, work),
      verify: verifySimulated,
      ...membershipOf(site, host),
      ...(mutant?.crewRules && { crewRules: { ...crewRules, ...mutant.crewRules } }),
    },
  );
  leave = async () => {
    await pnode.leave();
    host.crash();
  };
}

/** Blobs by address over the simulated network, as the real transfer does it over HTTP. */
function transferOver(network: SimulatedNetwork): BlobTransfer {
  const send = async (method: "PUT" | "GET", { url, key, headers }: BlobAddress, body?: Uint8Array) => {
    const reply = await network.fetch({ url, key, method, headers, body }, { timeoutMs: 10_000 });
    if (reply.ok) return reply.body;
    const code = codeOfBlobRefusal(reply.status, method === "GET" ? "not_found" : "unavailable");
    throw new DcnrError(code, new TextDecoder().decode(reply.body));
  };
  return {
    upload: async (to, content) => void (await send("PUT", to, content)),
    download: async (from, into) => {
      const bytes = await send("GET", from);
      if (bytes.byteLength !== into.byteLength)
        throw new DcnrError("data_loss", `${bytes.byteLength} bytes came, not ${into.byteLength}`);
      into.set(bytes);
    },
  };
}

function diskOf(host: Host): SpillStorage {
  const files = new Map<string, Uint8Array>();
  const takes = () => new Promise<void>((resolve) => void host.after(0.5 * host.slowness, resolve));
  return {
    write: async (key, content) => {
      const copy = content.slice();
      await takes();
      files.set(key, copy);
    },
    read: async (key, room) => {
      await takes();
      const content = files.get(key);
      if (content === undefined) throw new DcnrError("not_found", `${key} is not on the disk of ${host.name}`);
      room?.set(content);
      return room ?? content.slice();
    },
    remove: async (key) => void files.delete(key),
  };
}

function keptOf(site: Site, host: Host): KeptStorage {
  const files = site.keptDisks.get(host.name) ?? new Map<string, Uint8Array>();
  site.keptDisks.set(host.name, files);
  const takes = () => new Promise<void>((resolve) => void host.after(0.5 * host.slowness, resolve));
  return {
    list: async () => [...files.keys()].filter((name) => name !== membersFile),
    read: async (name) => files.get(name)?.slice(),
    write: async (name, content) => {
      const copy = content.slice();
      await takes();
      if (site.refusesKept?.(host.name, name)) throw new Error("no space is left on the disk");
      if (host.alive) files.set(name, copy);
    },
    remove: async (name) => {
      await takes();
      if (host.alive) files.delete(name);
    },
  };
}

/** The shards that a PNode fetched before it crashed are still there when it is back. */
function cacheOf(site: Site, host: Host): BlobCache {
  const files = site.disks.get(host.name) ?? new Map<Sha256, Uint8Array>();
  site.disks.set(host.name, files);
  return {
    get: async (hash) => files.get(hash)?.slice(),
    put: async (hash, content) => void files.set(hash, content.slice()),
  };
}
