// Messages that an audit needs, stored as blobs before their sender lets them go. A blob is named like its message, so that a
// list of messages is all that an auditor has to be given, and a message that is there is not sent twice.

import { messageOf } from "../../core/errors.ts";
import { wholeContent } from "../../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../../core/ids.ts";
import { retry } from "../../core/retry.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { World } from "../../core/world.ts";
import { giveBack } from "../../vnode/wire.ts";
import type { BlobClient } from "../blob-client.ts";
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
}

export class Locker {
  readonly #options: LockerOptions;
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
    while (this.#uploading.size < uploadsAtOnce && this.#waiting.length > 0) {
      const next = this.#waiting.shift() as Locked;
      this.#uploading.add(next);
      this.#options.tasks.run("store a message for an audit", async () => {
        try {
          await this.#upload(next);
        } finally {
          next.letGo();
          this.#uploading.delete(next);
          this.#start();
        }
      });
    }
  }

  async #upload({ session, stored }: Locked): Promise<void> {
    const { world, timings, blobs, signal } = this.#options;
    const tensor = await stored.borrow();
    try {
      const content = wholeContent(tensor);
      const patience = { minMs: timings.retryMinMs, maxMs: timings.retryMaxMs, patienceMs, signal };
      await retry({ world, ...patience }, () =>
        blobs.storeList(session, stored.hashOf(tensor) as Sha256, content, signal),
      );
      this.bytes += content.byteLength;
    } catch (error) {
      if (!signal.aborted) world.log("warn", `a message for an audit was not stored: ${messageOf(error)}`);
    } finally {
      giveBack(tensor);
    }
  }
}
