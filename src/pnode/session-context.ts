// What a PNode knows about a session: the plan it compiled itself from the definition, the schedule, the data. What an
// orchestrator says decides nothing by itself: the settings must hash to the session's id, the definition to the hash in
// them, the dataset's blobs to the hashes in its manifest.

import { type Aside, runAside } from "../core/aside.ts";
import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import type { SessionId, Sha256, VNodeId } from "../core/ids.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Clock } from "../core/world.ts";
import { type Batches, openBatches } from "../data/batches.ts";
import { fetchAll, type SizedBlob } from "../data/fetch-all.ts";
import { blobsOf, parseManifest } from "../data/manifest.ts";
import type { EngineKind, Executor } from "../engine/engine.ts";
import { expandLanes, laneShare, originalOf } from "../network/lanes.ts";
import { memoryBytesOf } from "../network/memory.ts";
import type { Plan, VNodePlan } from "../network/plan.ts";
import { type Assurance, isIdentityOf, type SessionIdentity, samplesOf } from "../network/settings/session.ts";
import { trainingFromWire } from "../network/settings/wire.ts";
import { tiedGroups } from "../network/ties.ts";
import { buildingToLearn, compileAside, type LearningGraphs } from "../network/works.ts";
import type { DescribeSessionResponse } from "../protocol/gen/dcnr/v1/pnode_pb.ts";
import type { StateReader } from "../states/reader.ts";
import { VNodeCompute } from "../vnode/compute.ts";
import type { BatchSource } from "../vnode/feeds.ts";
import type { Schedule } from "../vnode/schedule.ts";
import type { BlobClient } from "./blob-client.ts";
import { NoRoom } from "./room.ts";
import { isCompared, type Rounding, refuseOtherRounding, writeRounding } from "./rounding.ts";

export interface SessionContextOptions {
  readonly session: SessionId;
  /** Version of the bits that this PNode computes. */
  readonly bits: number;
  readonly check: CheckSession;
  /** What an orchestrator says of the session, or said when there was one. */
  readonly describe: (session: SessionId) => Promise<DescribeSessionResponse>;
  readonly blobs: Pick<BlobClient, "fetch">;
  readonly executorFor: (engine: EngineKind) => Promise<Executor>;
  readonly rounding: Rounding;
  /** The engine by which this machine computes in a class. */
  readonly engineOf: (numericsClass: string) => EngineKind;
  readonly shardBytesMax: number;
  readonly clock: Clock;
  readonly aside: Aside;
  /** Hears how long a VNode waited for samples. */
  readonly onDataWait: (waitedMs: number) => void;
  readonly signal: AbortSignal;
}

export class SessionContext {
  readonly session: SessionId;
  /** With all lanes. */
  readonly plan: Plan;
  /** Which VNodes share weights. */
  readonly tied: ReturnType<typeof tiedGroups>;
  readonly identity: SessionIdentity;
  /** Of one lane. */
  readonly schedule: Schedule;
  /** But for "none", what is computed is signed. */
  readonly assurance: Assurance;
  readonly #options: SessionContextOptions;
  readonly #definition: string;
  readonly #network: Plan;
  #batches: Promise<Batches> | undefined;
  /** What was fetched ahead: whoever waits for the rest need not read it again and again. */
  readonly #onDisk = new Set<Sha256>();
  /** Of VNodes that may have to be taken over: the thread that builds graphs ends when nobody needs it. */
  readonly #built = new Map<VNodeId, Promise<LearningGraphs>>();

  private constructor(
    options: SessionContextOptions,
    definition: string,
    plan: Plan,
    { identity, assurance, restAfter, ...told }: ReturnType<typeof trainingOf>,
  ) {
    this.#options = options;
    this.#definition = definition;
    this.session = options.session;
    this.#network = plan;
    this.plan = expandLanes(plan, identity);
    this.tied = tiedGroups(this.plan.edges);
    this.identity = identity;
    this.assurance = assurance;
    const { steps, validateEvery } = identity;
    const counts = { ...told, steps, validateEvery, ...laneShare(identity) };
    this.schedule = restAfter === undefined ? counts : { ...counts, restAfter };
  }

  /** `computes`: VNodes will be computed here, so the workers start while the definition is compiled: each takes half a second of CPU. */
  static async open(options: SessionContextOptions, computes = false): Promise<SessionContext> {
    const { session } = options;
    const described = await options.describe(session);
    const training = trainingOf(described, session);
    const { identity } = training;
    const { definition } = described;
    options.check({ session, identity, definition }, options.bits);
    // Whoever computes asks again, and hears what is wrong. Where each lane has its class, the VNode's says which engine.
    if (computes && identity.numerics !== "mixed") options.executorFor(identity.numerics).catch(() => {});
    const plan = await compileAside(options.aside, definition);
    return new SessionContext(options, definition, plan, training);
  }

  /** Samples of one microbatch. */
  get samples(): number {
    return samplesOf(this.identity);
  }

  /** What a VNode needs of its host. */
  memoryBytesOf(vnode: VNodeId): number {
    const { microbatches } = this.schedule;
    const hasRounds = this.identity.sync !== undefined;
    return memoryBytesOf(this.#planOf(vnode), this.samples * microbatches, microbatches, hasRounds);
  }

  #planOf(vnode: VNodeId): VNodePlan {
    const own = this.plan.vnodes.find((candidate) => candidate.id === vnode);
    return own ?? fail("not_found", `session ${this.session} has no VNode ${vnode}`);
  }

  /** Whether a VNode is fed with samples. */
  readsData(vnode: VNodeId): boolean {
    return this.#planOf(vnode).inputs.some(({ source }) => source !== "edge");
  }

  /** Everything that VNodes are fed with, onto the disk of this machine. */
  async fetchData(pnode: string): Promise<void> {
    const { blobs, signal } = this.#options;
    const text = new TextDecoder().decode(await blobs.fetch(this.session, this.identity.dataset, signal));
    // Only the tokenizer, which nobody trains with, comes without a size.
    const missing = blobsOf(parseManifest(text)).flatMap(({ hash, bytes }) =>
      bytes === undefined || this.#onDisk.has(hash) ? [] : [{ hash, bytes }],
    );
    const fetch = async ({ hash, bytes }: SizedBlob) => {
      await blobs.fetch(this.session, hash, signal, bytes);
      this.#onDisk.add(hash);
    };
    await fetchAll(pnode, missing, fetch, signal);
  }

  /** Where lanes have classes of their own, the VNode's class says by which engine. */
  #executor(numericsClass: string): Promise<Executor> {
    const { numerics } = this.identity;
    return this.#options.executorFor(numerics === "mixed" ? this.#options.engineOf(numericsClass) : numerics);
  }

  #build(vnode: VNodeId): Promise<LearningGraphs> {
    const { identity, samples } = this;
    return runAside(this.#options.aside, buildingToLearn, {
      ...{ definition: this.#definition, vnode, microbatch: samples, lossScale: 1 / identity.microbatches },
      evaluates: identity.validateEvery > 0,
    });
  }

  /** Before it is needed: graphs that stay built, and an engine that has run them once. Which engine lanes of mixed classes need is not known yet. */
  async warm(vnode: VNodeId, name: string): Promise<void> {
    if (this.identity.numerics === "mixed") return;
    const { id } = originalOf(this.#network, this.#planOf(vnode));
    const built = this.#built.get(id) ?? this.#build(id);
    this.#built.set(id, built);
    built.catch(() => this.#built.delete(id));
    const compute = await this.computeFor(vnode, name);
    await compute.close();
  }

  /** The numerics of one VNode, without a state yet. */
  async computeFor(vnode: VNodeId, name: string, numericsClass = ""): Promise<VNodeCompute> {
    const { plan, identity } = this;
    const own = this.#planOf(vnode);
    const original = originalOf(this.#network, own);
    const executor = await this.#executor(numericsClass);
    if (executor.lost !== undefined) throw new NoRoom(executor.lost);
    const graphs = await (this.#built.get(original.id) ?? this.#build(original.id));
    const compute = new VNodeCompute({
      name,
      plan: original,
      copy: own.copy,
      executor,
      ...graphs,
      batches: this.#source,
      settings: identity,
      data: plan,
    });
    try {
      const tried = await compute.warmUp();
      const own = isCompared(identity.numerics) ? this.#options.rounding.classOf(identity.numerics) : undefined;
      if (tried !== undefined && own !== undefined) compute.state.rounding = writeRounding(own, tried);
    } catch (error) {
      await compute.close();
      throw error;
    }
    return compute;
  }

  /** Fails with NoRoom where this machine would compute other bits than one of its class that began before it; `told` may be empty. */
  compare(compute: VNodeCompute, told: string): void {
    const { numerics } = this.identity;
    if (isCompared(numerics)) refuseOtherRounding(numerics, told, compute.state.rounding, this.#options.rounding);
  }

  /** A state that others computed. Fails with NoRoom where this machine would go on with other bits. */
  async restore(compute: VNodeCompute, file: StateReader, line: number): Promise<void> {
    const stored = file.metadata["rounding"];
    this.compare(compute, stored ?? "");
    compute.state.rounding ??= stored;
    await compute.restore(file, line);
  }

  async workers(numericsClass = ""): Promise<number> {
    return (await this.#executor(numericsClass)).workers;
  }

  /** Opened by the first VNode that needs samples; most need none. */
  readonly #source: BatchSource = {
    field: async (name, request): Promise<Tensor> => {
      const { clock, onDataWait } = this.#options;
      this.#batches ??= this.#open();
      const batches = this.#batches;
      const startedMs = clock.monotonicMs();
      try {
        return await (await batches).field(name, request);
      } catch (error) {
        // Opening may work the next time.
        if (this.#batches === batches) this.#batches = undefined;
        throw error;
      } finally {
        onDataWait(clock.monotonicMs() - startedMs);
      }
    },
  };

  async #open(): Promise<Batches> {
    const { blobs, signal, shardBytesMax } = this.#options;
    const { identity, plan } = this;
    const fetchBlob = (hash: Sha256, bytes?: number) => blobs.fetch(this.session, hash, signal, bytes);
    const text = new TextDecoder().decode(await fetchBlob(identity.dataset));
    const context = plan.inputs?.shape[0];
    return openBatches({
      manifest: parseManifest(text),
      fetchBlob,
      cacheBytesMax: shardBytesMax,
      seed: identity.seed,
      split: identity.split,
      validationSplit: identity.validateEvery > 0 ? identity.validationSplit : "",
      batch: identity.batch,
      microbatches: identity.microbatches,
      ...(context !== undefined && { context }),
    });
  }
}

/** What an orchestrator says of a session. */
export interface ToldSession {
  readonly session: SessionId;
  readonly identity: SessionIdentity;
  readonly definition: string;
}

export type CheckSession = (told: ToldSession, ownBits: number) => void;

/** Refuses what is not the session of that id, and what this PNode would compute other bits for. */
export const checkSession: CheckSession = ({ session, identity, definition }, ownBits) => {
  if (!isIdentityOf(session, identity))
    fail("data_loss", `the settings of session ${session} do not hash to its id: they are another session's`);
  if (identity.bits !== ownBits)
    fail(
      "failed_precondition",
      `session ${session} needs version ${identity.bits} of the bits, this PNode computes ${ownBits}: update it`,
    );
  if (sha256(definition) !== identity.definition)
    fail("data_loss", `the definition of session ${session} does not have the hash that its settings name`);
};

export function trainingOf({ work }: Pick<DescribeSessionResponse, "work">, session: SessionId) {
  if (work.case !== "training") fail("data_loss", `session ${session} is not one that learns`);
  return trainingFromWire(work.value, session);
}
