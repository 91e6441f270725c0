// One life of a hosted VNode: from loading the state of a recovery line until it ends or has to start again.

import { DcnrError, fail, hasCode, messageOf } from "../../core/errors.ts";
import type { SessionId, Sha256 } from "../../core/ids.ts";
import type { StateReader } from "../../states/reader.ts";
import type { Signing } from "../../trust/signing.ts";
import type { VNodeCompute } from "../../vnode/compute.ts";
import type { OpenProcess, VNodeProcess } from "../../vnode/process.ts";
import { type Role, roleOf } from "../../vnode/role.ts";
import { Transcript } from "../../vnode/transcript.ts";
import type { Assignment } from "../assignment.ts";
import type { BlobClient } from "../blob-client.ts";
import { type CheckpointOptions, makeDurable, type Recorded, type StepHash } from "../checkpoints.ts";
import type { SessionContext } from "../session-context.ts";
import type { Snapshot } from "../snapshots.ts";
import type { Asker } from "./receiver.ts";
import type { StoredTensor } from "./retention.ts";

/** Everything that belongs to one start from one line; a restart makes a new one. */
export interface Life {
  readonly process: VNodeProcess<StoredTensor, Asker>;
  readonly compute: VNodeCompute;
  readonly context: SessionContext;
  readonly role: Role;
  /** Of all steps since the last durable one, the newest last. */
  hashes: StepHash[];
  readonly ending: AbortController;
  /** The line it started from. */
  readonly start: number;
  /** Grows when the session goes back. */
  readonly turn: number;
  /** Where what is computed is signed. */
  readonly record: LifeRecord | undefined;
  /** States are recorded in order, so that the hashes of all steps below the line are known when it moves. */
  persisting: Promise<void>;
}

/** What a life says of itself, for statements. */
export interface LifeRecord {
  /** New for every life. */
  readonly name: string;
  readonly transcript: Transcript;
  readonly signing: Signing;
  /** The state at the beginning of the interval that is recorded next. */
  before: string;
}

/** A checkpoint is missing or damaged: orchestrators then fall back to the line before. */
export class LostState extends DcnrError {
  readonly state: string;

  constructor(state: string, message: string) {
    super("data_loss", message);
    this.state = state;
  }
}

export interface LifeOpenerOptions {
  readonly session: (session: SessionId) => Promise<SessionContext>;
  readonly blobs: BlobClient;
  readonly openProcess: OpenProcess;
  /** Of snapshots that wait for their upload, per VNode. */
  readonly snapshotBytesMax: number;
  readonly signing: Signing | undefined;
  readonly newLifeName: () => string;
}

/** Opens the lives of all VNodes of a PNode. */
export class LifeOpener {
  readonly #options: LifeOpenerOptions;
  /** One that ends may still hold its graphs while the next begins: each has a name of its own. */
  #opened = 0;

  constructor(options: LifeOpenerOptions) {
    this.#options = options;
  }

  /** Loads what the assignment says; undefined if the signal aborts on the way. */
  async open(assignment: Assignment, signal: AbortSignal): Promise<Life | undefined> {
    const { session, vnode, line, state } = assignment;
    // Only the state before the first step follows from the seed.
    if (line > 0 && state === "") fail("unavailable", `no state of VNode ${vnode} at step ${line} is known yet`);
    const context = await this.#options.session(session);
    const role = roleOf(context.plan, vnode);
    const opening = context.workers(assignment.numericsClass);
    opening.catch(() => {});
    const file = state === "" ? undefined : await this.#openState(assignment, signal);
    const parallel = Math.max(1, await opening);
    const name = `${session}/${vnode}/${++this.#opened}`;
    const compute = await context.computeFor(vnode, name, assignment.numericsClass);
    try {
      context.compare(compute, assignment.rounding);
      if (file === undefined) await compute.initialise();
      else await orLost(assignment, () => (line === 0 ? compute.adopt(file) : context.restore(compute, file, line)));
    } catch (error) {
      await compute.close();
      throw error;
    }
    if (signal.aborted) {
      await compute.close();
      return undefined;
    }
    const persistsPendingMax = pendingMax(this.#options.snapshotBytesMax, compute.state.bytes);
    const { schedule } = context;
    const { rounds, numericsClass, commonClass } = assignment;
    const classes = { own: numericsClass, common: commonClass };
    const options = { role, schedule, line, parallel, persistsPendingMax, rounds, classes };
    const process = this.#options.openProcess<StoredTensor, Asker>(options);
    const progress = { hashes: [], start: line, turn: assignment.turn, persisting: Promise.resolve() };
    const record = this.#record(assignment, context, role);
    return { process, compute, context, role, record, ending: new AbortController(), ...progress };
  }

  #record({ line, state }: Assignment, context: SessionContext, role: Role): LifeRecord | undefined {
    if (context.assurance === "none") return undefined;
    const { signing, newLifeName } = this.#options;
    if (signing === undefined)
      fail("failed_precondition", `session ${context.session} is checked, and this PNode cannot sign: update it`);
    const transcript = new Transcript(role, context.schedule, line);
    return { name: newLifeName(), transcript, signing, before: state };
  }

  #openState(assignment: Assignment, signal: AbortSignal): Promise<StateReader> {
    const { session, vnode, line, state } = assignment;
    const what = `the state of VNode ${vnode} at step ${line}`;
    return orLost(assignment, () => this.#options.blobs.openState(session, state as Sha256, what, signal));
  }
}

/** Whatever is missing or damaged on the way, the orchestrators hear which state it was. */
async function orLost<T>({ vnode, line, state }: Assignment, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (!hasCode(error, "data_loss") && !hasCode(error, "not_found")) throw error;
    const why = `(manifest ${state}): ${messageOf(error)}`;
    throw new LostState(state, `the state of VNode ${vnode} at step ${line} is lost ${why}`);
  }
}

/** `noRoom`: of this PNode's disk; another one may have it. */
export interface NotPersisted {
  readonly kind: "failed";
  readonly reason: string;
  readonly noRoom?: boolean;
}

export type Persisted = Recorded | NotPersisted;

/** Makes the present state durable after those before it; undefined if the life ends first. */
export async function persistLife(
  options: CheckpointOptions,
  life: Life,
  step: number,
  flush: () => Promise<void>,
): Promise<Persisted | undefined> {
  // Taken now: the next update changes the weights in place, and waits until they are read.
  const taking = life.compute.state.take(step, options.snapshot);
  const passage = life.record?.transcript.take(step);
  const before = life.persisting;
  const persist = async (): Promise<Persisted | undefined> => {
    await before;
    if (options.signal.aborted) return undefined;
    // The last record may end the session: what was measured has to be known by then.
    if (step === life.context.schedule.steps) await flush();
    try {
      const hashes = life.hashes.filter((entry) => entry.step <= step);
      const stating = passage && life.record && { passage, record: life.record };
      const recorded = await makeDurable(options, { step, turn: life.turn, steps: hashes, stating }, await taking);
      life.hashes = life.hashes.filter((entry) => entry.step > step);
      return recorded;
    } catch (error) {
      if (options.signal.aborted) return undefined;
      return { kind: "failed", reason: `checkpoint at step ${step}: ${messageOf(error)}` };
    }
  };
  const persisting = persist().finally(() => release(taking));
  life.persisting = persisting.then(() => {});
  return persisting;
}

async function release(taking: Promise<Snapshot>): Promise<void> {
  const taken = await taking.catch(() => undefined);
  await taken?.release();
}

/** As many snapshots as fit their bound, within reason. */
function pendingMax(bytesMax: number, stateBytes: number): number {
  return Math.max(2, Math.min(64, Math.floor(bytesMax / Math.max(1, stateBytes))));
}
