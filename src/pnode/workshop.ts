// What work for a session takes on this machine: executors, the session as described and checked, copies of states on their
// way to the store. Training and audits share it.

import type { Aside } from "../core/aside.ts";
import { answerBits, bits } from "../core/bits.ts";
import { statePartBytes } from "../core/blobs.ts";
import { fail } from "../core/errors.ts";
import type { Digest } from "../core/hash.ts";
import type { SessionId } from "../core/ids.ts";
import type { EngineKind, Executor } from "../engine/engine.ts";
import type { DescribeSessionResponse } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { StateImage } from "../states/cut.ts";
import type { BlobClient } from "./blob-client.ts";
import type { Bounds, PNodeDependencies, PNodeOptions } from "./options.ts";
import { checkServed, type ToldReplica } from "./serving/serving-context.ts";
import { checkSession, SessionContext, type SessionContextOptions, trainingOf } from "./session-context.ts";
import { type Snapshot, takeSnapshot } from "./snapshots.ts";

export interface WorkshopParts {
  readonly options: Pick<PNodeOptions, "answerBits" | "bits" | "statePartBytes">;
  readonly machine: Pick<
    PNodeDependencies,
    "world" | "executorFor" | "checkSession" | "checkServed" | "spill" | "onOtherBits"
  >;
  /** The class that this PNode says an engine of its has. */
  readonly classOf: (engine: EngineKind) => string | undefined;
  readonly bounds: Bounds;
  readonly blobs: BlobClient;
  readonly digest: Digest;
  readonly aside: Aside;
  readonly describe: SessionContextOptions["describe"];
  readonly signal: AbortSignal;
  /** What this machine computes in. */
  readonly numerics: () => readonly { readonly engine?: string; readonly class?: string }[];
}

export class Workshop {
  readonly #parts: WorkshopParts;
  readonly #executors = new Map<EngineKind, Promise<Executor>>();
  #snapshots = 0;
  /** What VNodes have waited for samples of their datasets, added up. */
  dataWaitMs = 0;

  constructor(parts: WorkshopParts) {
    this.#parts = parts;
  }

  /** `computes`: and its VNodes will be computed here. */
  openSession(session: SessionId, computes: boolean): Promise<SessionContext> {
    const { options, machine, bounds, blobs, aside, describe, signal, classOf } = this.#parts;
    const own: SessionContextOptions = {
      ...{ session, blobs, aside, describe, signal },
      check: machine.checkSession ?? checkSession,
      bits: options.bits ?? bits,
      executorFor: (engine) => this.executor(engine),
      rounding: { classOf, onOther: (tried, engine) => machine.onOtherBits?.(tried, engine) },
      engineOf: (numericsClass) => this.#engineOf(numericsClass),
      shardBytesMax: bounds.shardBytesMax,
      clock: machine.world.clock,
      onDataWait: (waitedMs) => {
        this.dataWaitMs += waitedMs;
      },
    };
    return SessionContext.open(own, computes);
  }

  #engineOf(numericsClass: string): EngineKind {
    const own = this.#parts.numerics().find((one) => one.class === numericsClass);
    return own?.engine === undefined
      ? fail("failed_precondition", `this machine does not compute in the class ${numericsClass || "(none was told)"}`)
      : (own.engine as EngineKind);
  }

  /** Fails for what is not the session of that id, and for what this PNode would compute other bits for. */
  checkDescribed(session: SessionId, described: DescribeSessionResponse): void {
    const { options, machine } = this.#parts;
    const { identity } = trainingOf(described, session);
    const { definition } = described;
    (machine.checkSession ?? checkSession)({ session, identity, definition }, options.bits ?? bits);
  }

  /** Fails for what is not the network that is served, and for what this PNode would compute other bits for. */
  checkServed(told: ToldReplica): void {
    const { options, machine } = this.#parts;
    (machine.checkServed ?? checkServed)(told, options.answerBits ?? answerBits);
  }

  snapshot(image: StateImage): Snapshot {
    const { options, machine, bounds, digest } = this.#parts;
    return takeSnapshot(image, {
      world: machine.world,
      digest,
      partBytes: options.statePartBytes ?? statePartBytes,
      copyBytesMax: bounds.copyBytesMax,
      name: `snapshot-${++this.#snapshots}`,
      ...(machine.spill && { storage: machine.spill }),
    });
  }

  /** The same one at every call; one that could not be opened is tried anew. */
  executor(engine: EngineKind): Promise<Executor> {
    const known = this.#executors.get(engine);
    if (known !== undefined) return known;
    const opening = this.#parts.machine.executorFor(engine);
    this.#executors.set(engine, opening);
    opening.catch(() => this.#executors.delete(engine));
    return opening;
  }

  async close(): Promise<void> {
    for (const executor of this.#executors.values()) await executor.then((opened) => opened.close()).catch(() => {});
  }
}
