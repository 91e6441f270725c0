// Orchestrators and PNodes on real connections in one process, for tests of who is believed to be whom.

import {
  followNetworkKey,
  loadNetworkKey,
  presentKey,
  rotateNetworkKey,
} from "../../src/cli/machine/keys/network-key.ts";
import { DcnrError } from "../../src/core/errors.ts";
import type { KeyId } from "../../src/core/ids.ts";
import { keyIdOf, verifySignature } from "../../src/core/keys.ts";
import { openInlineExecutor } from "../../src/engine/executor.ts";
import { openReferenceEngine } from "../../src/engine/reference.ts";
import type { KeptFile } from "../../src/membership/kept.ts";
import { type Orchestrator, startOrchestrator } from "../../src/orchestrator/orchestrator.ts";
import { type PNode, startPNode } from "../../src/pnode/pnode.ts";
import { type GrpcNetwork, type GrpcNetworkOptions, openGrpcNetwork } from "../../src/protocol/grpc.ts";
import { withKey } from "../../src/protocol/routes/address.ts";
import { openMemoryBlobs, openMemoryStore } from "../../src/store/memory.ts";
import type { RealIdentity } from "../../src/system/keys.ts";
import { backgroundTimers } from "../../src/system/timers.ts";
import { realWorld } from "../../src/system/world.ts";

/** Members compare what they know far more often than usual. */
const timings = { syncMs: 1_000, retryDeadMs: 500 };
const checks = { verify: verifySignature, idOf: keyIdOf };

export class RealStage {
  readonly world = realWorld({ logFormat: "none" });
  readonly store = openMemoryStore();
  readonly blobs = openMemoryBlobs({ baseUrl: () => "http://127.0.0.1:1", clock: this.world.clock });
  readonly orchestrators: { readonly running: Orchestrator; readonly network: GrpcNetwork }[] = [];
  readonly #disks = new Map<KeyId, Uint8Array>();
  readonly #ends: (() => Promise<void> | void)[] = [];

  open(options: Partial<GrpcNetworkOptions> = {}): GrpcNetwork {
    const network = openGrpcNetwork({ timers: backgroundTimers, ...options });
    this.#ends.push(() => network.close());
    return network;
  }

  /** Local callers need keys like all others. */
  async orchestrator(options: Partial<GrpcNetworkOptions> = {}): Promise<Orchestrator> {
    const { world, store, blobs } = this;
    const identity = await loadNetworkKey(store, world);
    const network = this.open({ ...options, identity });
    const { shown, signing } = presentKey(identity, network);
    const running = await startOrchestrator(
      { listen: "127.0.0.1:0", trustLoopback: false },
      {
        ...{ world, network, store, blobs, membership: { identity: signing, keys: checks, timings } },
        rotateNetworkKey: () => rotateNetworkKey(store, world, shown),
      },
    );
    const unfollow = followNetworkKey(store, world, shown);
    this.orchestrators.push({ running, network });
    this.#ends.push(() => running.stop(), unfollow);
    return running;
  }

  addressOf(index: number, key: KeyId): string {
    return withKey(this.orchestrators[index]?.running.address as string, key);
  }

  async pnode(identity: RealIdentity, orchestrators: readonly string[]): Promise<PNode> {
    const executor = openInlineExecutor(openReferenceEngine());
    const numerics = [{ engine: "reference", class: await executor.numericsClass() }];
    const refuse = async () => {
      throw new DcnrError("unavailable", "there are no blobs here");
    };
    const pnode = await startPNode(
      {
        ...{ name: identity.id.slice(0, 6), software: "test", orchestrators, listen: "127.0.0.1:0" },
        capabilities: { cores: 1, memoryBytes: 2n << 30n, gflops: 1, numerics },
      },
      {
        ...{ world: this.world, network: this.open({ identity }) },
        membership: { identity, keys: checks, timings, file: this.#diskOf(identity.id) },
        executorFor: async () => executor,
        blobs: { upload: refuse, download: refuse },
      },
    );
    this.#ends.push(() => pnode.stop());
    return pnode;
  }

  #diskOf(id: KeyId): KeptFile {
    return { read: async () => this.#disks.get(id), write: async (content) => void this.#disks.set(id, content) };
  }

  async stop(): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
  }
}
