// Messages that an audit needs, stored as blobs before their sender lets them go. A blob is named like its message, so that a
// list of messages is all that an auditor has to be given, and a message that is there is not sent twice.

import { messageOf } from "../../core/errors.ts";
import { wholeContent, wholeLength } from "../../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import { retry } from "../../core/retry.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { World } from "../../core/world.ts";
import { groupsOf } from "../../states/grants.ts";
import { giveBack } from "../../vnode/wire.ts";
import type { BlobClient, StoreBlob } from "../blob-client.ts";
import type { Timings } from "../options.ts";
import type { Retention, StoredTensor } from "./retention.ts";

export interface LockerOptions {
  readonly world: World;
  readonly tasks: Tasks;
  readonly timings: Timings;
  readonly blobs: BlobClient;
  readonly signal: AbortSignal;
}

/** Training needs the line more. */
const uploadsAtOnce = 2;
/** A large message is stored alone: each is copied for it, and has to be there before its sender seems silent (orchestrator/trust/silence.ts). */
const bytesAtOnce = 32 << 20;
/** Afterwards orchestrators have given the sender up (orchestrator/trust/silence.ts). */
const patienceMs = 600_000;

interface Whose {
  readonly session: SessionId;
  readonly vnode: VNodeId;
}

interface Locked extends Whose {
  readonly sinceMs: number;
  readonly stored: StoredTensor;
  readonly letGo: () => void;
  /** Leave to store it, once it is asked for; undefined where that failed. */
  granted?: Promise<StoreBlob | undefined>;
}

export class Locker {
  readonly #options: LockerOptions;
  /** In the order in which they came, whoever sent them: nobody's messages are stored later for another session's sake. */
  readonly #waiting: Locked[] = [];
  readonly #uploading = new Set<Locked>();
  /** Of all that it has stored. */
  bytes = 0;

  constructor(options: LockerOptions) {
    this.#options = options;
  }

  /** Of what this VNode has sent. */
  lock({ session, vnode }: Whose, stored: StoredTensor, retention: Retention): void {
    const sinceMs = this.#options.world.clock.monotonicMs();
    this.#waiting.push({ session, vnode, sinceMs, stored, letGo: retention.hold(stored) });
    this.#start();
  }

  /** For how long the oldest of a VNode's messages has waited to be stored; 0 if none waits. */
  waitedMs({ session, vnode }: Whose): number {
    const nowMs = this.#options.world.clock.monotonicMs();
    let waitedMs = 0;
    for (const one of [...this.#uploading, ...this.#waiting])
      if (one.session === session && one.vnode === vnode) waitedMs = Math.max(waitedMs, nowMs - one.sinceMs);
    return waitedMs;
  }

  #start(): void {
    for (let [next] = this.#waiting; next !== undefined && this.#hasPlaceFor(next); [next] = this.#waiting) {
      this.#askFor(next);
      this.#waiting.shift();
      this.#uploading.add(next);
      this.#store(next);
    }
  }

  #hasPlaceFor(next: Locked): boolean {
    const bytes = [...this.#uploading, next].reduce((sum, { stored }) => sum + stored.length, 0);
    return this.#uploading.size === 0 || (this.#uploading.size < uploadsAtOnce && bytes <= bytesAtOnce);
  }

  #store(locked: Locked): void {
    this.#options.tasks.run("store a message for an audit", async () => {
      try {
        await this.#upload(locked);
      } finally {
        locked.letGo();
        this.#uploading.delete(locked);
        this.#start();
      }
    });
  }

  /** Together with what waits behind it of its session: leave to store an interval's messages is asked for in few questions. */
  #askFor({ session, granted }: Locked): void {
    if (granted !== undefined) return;
    const alike = this.#waiting.filter((one) => one.session === session && one.granted === undefined);
    const [group = []] = groupsOf(
      alike.map((locked) => ({ locked, bytes: wholeLength(locked.stored, locked.stored.length) })),
    );
    const asked = this.#granted(
      session,
      group.map(({ locked }) => locked.stored),
    );
    for (const [at, { locked }] of group.entries()) locked.granted = asked.then((all) => all[at]);
  }

  /** Nothing where that fails: each then asks for itself, as often as it takes. */
  async #granted(session: SessionId, group: readonly StoredTensor[]): Promise<readonly StoreBlob[]> {
    try {
      const blobOf = async (stored: StoredTensor) => ({
        hash: await hashOf(stored),
        bytes: wholeLength(stored, stored.length),
      });
      return await this.#options.blobs.grantLists(session, await Promise.all(group.map(blobOf)), this.#options.signal);
    } catch {
      return [];
    }
  }

  async #upload({ session, stored, granted }: Locked): Promise<void> {
    const { world, timings, blobs, signal } = this.#options;
    let first = await granted;
    try {
      const tensor = await stored.borrow();
      try {
        const content = wholeContent(tensor);
        const patience = { minMs: timings.retryMinMs, maxMs: timings.retryMaxMs, patienceMs, signal };
        await retry({ world, ...patience }, () => {
          const store = first;
          first = undefined;
          return store
            ? store(async () => content)
            : blobs.storeList(session, stored.hashOf(tensor) as Sha256, content, signal);
        });
        this.bytes += content.byteLength;
      } finally {
        giveBack(tensor);
      }
    } catch (error) {
      if (!signal.aborted) world.log("warn", `a message for an audit was not stored: ${messageOf(error)}`);
    }
  }
}

async function hashOf(stored: StoredTensor): Promise<Sha256> {
  if (stored.knownHash !== "") return stored.knownHash as Sha256;
  const tensor = await stored.borrow();
  try {
    return stored.hashOf(tensor) as Sha256;
  } finally {
    giveBack(tensor);
  }
}
