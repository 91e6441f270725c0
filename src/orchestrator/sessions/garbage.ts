// Which checkpoints are kept, and the deletion of the others: well after no record names them any more, and only if no
// other state needs them. Equal states have equal names and states share parts, so both are looked at. Uploads that
// nobody ever recorded go too, after a day. Only the name space of states is touched: no record can make a dataset,
// vocabulary or definition look like garbage.

import type { Sha256 } from "../../core/ids.ts";
import type { StateManifest } from "../../states/manifest.ts";
import { listItems } from "../../store/update.ts";
import type { Context } from "../context.ts";
import { type ModelRecord, prefix, type SessionRecord, type VNodeRecord } from "../records/records.ts";
import { isLost, manifestOf } from "./stored-states.ts";

/** The line, the one before it in case a blob is damaged, the best, and everything newer than the line. */
export function isKept(session: Pick<SessionRecord, "line" | "lineBefore" | "best" | "status">, step: number): boolean {
  if (step >= session.line || step === session.best?.step) return true;
  return session.status !== "done" && step >= session.lineBefore;
}

export function trimmed(
  session: Pick<SessionRecord, "line" | "lineBefore" | "best" | "status">,
  durable: VNodeRecord["durable"],
): { kept: VNodeRecord["durable"]; dropped: Sha256[] } {
  const kept: Record<string, VNodeRecord["durable"][string]> = {};
  const dropped: Sha256[] = [];
  for (const [step, state] of Object.entries(durable)) {
    if (isKept(session, Number(step))) kept[step] = state;
    else dropped.push(state.hash);
  }
  return { kept, dropped };
}

export class Garbage {
  readonly #context: Context;
  /** States that no record of their session names any more; those of the last interval, and of the one before. */
  #next = new Set<Sha256>();
  #waiting = new Set<Sha256>();
  /** Blobs that somebody was told are stored, or may upload: the next sweep leaves them alone. */
  #wanted = new Set<Sha256>();
  /** Parts of states in use, so that a manifest is read once. */
  #parts = new Map<Sha256, readonly Sha256[]>();
  /** Uploads without a record, as the last search for them found. */
  #unrecorded = new Set<Sha256>();

  constructor(context: Context) {
    this.#context = context;
    const { tasks, timings } = context;
    tasks.every("deleting old checkpoints", timings.garbageDelayMs, () => this.#sweep());
    tasks.every("deleting uploads that nobody recorded", timings.unrecordedCheckMs, () => this.#sweepUnrecorded());
  }

  add(hashes: readonly Sha256[]): void {
    for (const hash of hashes) this.#next.add(hash);
  }

  /** Whoever is about to record a state with this blob relies on it. */
  wanted(hash: Sha256): void {
    this.#wanted.add(hash);
  }

  /** What was dropped before the last sweep has waited at least one interval. */
  async #sweep(): Promise<void> {
    const due = this.#waiting;
    this.#waiting = this.#next;
    this.#next = new Set();
    const wanted = this.#wanted;
    this.#wanted = new Set();
    if (due.size === 0) return;
    const blobs = new Set(due);
    for (const state of due) for (const part of await this.#partsOf(state)) blobs.add(part);
    for (const hash of await this.#needed()) blobs.delete(hash);
    for (const hash of wanted) if (blobs.delete(hash)) this.#next.add(hash);
    await this.#delete(blobs);
  }

  /** Twice without a record, an interval apart, and last uploaded a day ago: nobody comes back for it. */
  async #sweepUnrecorded(): Promise<void> {
    const { blobs, timings, world } = this.#context;
    const before = this.#unrecorded;
    const oldWallMs = world.clock.wallMs() - timings.unrecordedAfterMs;
    const found = new Set<Sha256>();
    for await (const { hash, modifiedWallMs } of blobs.states.list()) if (modifiedWallMs < oldWallMs) found.add(hash);
    for (const hash of await this.#needed()) found.delete(hash);
    for (const hash of this.#wanted) found.delete(hash);
    this.#unrecorded = found;
    await this.#delete(found.intersection(before));
  }

  async #delete(hashes: ReadonlySet<Sha256>): Promise<void> {
    for (const hash of hashes) {
      if (this.#context.tasks.stopped) return;
      await this.#context.blobs.states.delete(hash);
    }
  }

  /** Named by a VNode, by a session that starts from it, by a replica or a model; and the parts of all these. */
  async #needed(): Promise<Set<Sha256>> {
    const states = new Set<Sha256>();
    for await (const state of this.#states()) states.add(state);
    const needed = new Set(states);
    for (const state of states) for (const part of await this.#partsOf(state)) needed.add(part);
    for (const state of this.#parts.keys()) if (!states.has(state)) this.#parts.delete(state);
    return needed;
  }

  async *#states(): AsyncGenerator<Sha256> {
    const { mirror } = this.#context;
    for (const { durable } of mirror.under(prefix.vnodes)) for (const { hash } of Object.values(durable)) yield hash;
    for (const { initialStates = {}, status } of mirror.under(prefix.sessions))
      if (status !== "deleted") for (const { hash } of Object.values(initialStates)) yield hash;
    for (const { identity, status } of mirror.under(prefix.replicas))
      if (status !== "deleted") for (const { hash } of Object.values(identity.states)) yield hash;
    for await (const { record } of listItems<ModelRecord>(mirror.store, prefix.models))
      for (const { hash } of Object.values(record.states)) yield hash;
  }

  /** None of a state whose manifest is lost: nobody could read them. Fails while the store does not answer. */
  async #partsOf(state: Sha256): Promise<readonly Sha256[]> {
    const known = this.#parts.get(state);
    if (known) return known;
    const manifest: Pick<StateManifest, "parts"> = await manifestOf(this.#context.blobs.states, state).catch(
      (thrown: unknown) => (isLost(thrown) ? { parts: [] } : Promise.reject(thrown)),
    );
    this.#parts.set(state, manifest.parts);
    return manifest.parts;
  }
}
