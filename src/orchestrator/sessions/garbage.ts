// Which checkpoints are kept, and the deletion of the others: well after no record names them any more, and only if no
// other state needs them. Equal states have equal names and states share parts, so both are looked at. Uploads that
// nobody ever recorded go too, after a day. Only the name space of states is touched: no record can make a dataset,
// vocabulary or definition look like garbage.

import { hasCode } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { StateManifest } from "../../states/manifest.ts";
import { listItems } from "../../store/records/update.ts";
import type { Statement } from "../../trust/statement.ts";
import { inputHashes } from "../../trust/works.ts";
import type { Context } from "../context.ts";
import type { ModelRecord, SessionRecord } from "../records/sessions.ts";
import { prefix } from "../records/store-keys.ts";
import type { StoredState, VNodeRecord } from "../records/vnodes.ts";
import { isKeptLine } from "../trust/finality.ts";
import { isLost, manifestOf } from "./stored-states.ts";

/** The line, the one before it in case a blob is damaged, the best and the best that is final, and everything newer than the line. */
export function isKept(session: Keeping, step: number): boolean {
  if (step >= session.line || step === session.best?.step || step === session.bestFinal?.step) return true;
  if (session.final !== undefined && isKeptLine(session, step)) return true;
  return session.status !== "done" && step >= session.lineBefore;
}

type Keeping = Pick<
  SessionRecord,
  "line" | "lineBefore" | "best" | "bestFinal" | "status" | "final" | "drawn" | "identity" | "policy"
>;

export function trimmed(
  session: Keeping,
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
    const stated = this.#stated();
    for (const [list, statement] of stated) {
      needed.add(list);
      if (statement !== undefined) for (const message of await this.#messagesOf(statement)) needed.add(message);
    }
    for (const known of this.#parts.keys()) if (!states.has(known) && !stated.has(known)) this.#parts.delete(known);
    return needed;
  }

  /** Lists that statements name; with the statement if its messages are needed too, since somebody repeats them. */
  #stated(): Map<Sha256, Statement | undefined> {
    const { mirror } = this.#context;
    const lists = new Map<Sha256, Statement | undefined>();
    for (const { statements = {} } of mirror.under(prefix.vnodes))
      for (const { statement } of Object.values(statements).flat())
        for (const list of [statement.inputs, statement.outputs]) lists.set(list, undefined);
    for (const { statements, audits } of [...mirror.under(prefix.intervals), ...mirror.under(prefix.convictions)]) {
      if (statements !== "") lists.set(statements as Sha256, undefined);
      for (const { stated } of Object.values(audits))
        for (const { statement } of stated) {
          lists.set(statement.outputs, undefined);
          lists.set(statement.inputs, statement);
        }
    }
    return lists;
  }

  async #messagesOf({ session, vnode, from, to, inputs }: Statement): Promise<readonly Sha256[]> {
    const known = this.#parts.get(inputs);
    if (known) return known;
    const content = await this.#context.blobs.states.get(inputs).catch((thrown: unknown) => {
      if (isLost(thrown)) return undefined;
      throw thrown;
    });
    const interval = { session, vnode, from, to };
    // Whoever states a list that nobody can read must not keep everything else from being collected.
    const unread = (thrown: unknown) => {
      if (hasCode(thrown, "data_loss") || hasCode(thrown, "invalid_argument")) return [];
      throw thrown;
    };
    const hashes = content
      ? ((await inputHashes(this.#context.aside, content, interval).catch(unread)) as Sha256[])
      : [];
    this.#parts.set(inputs, hashes);
    return hashes;
  }

  async *#states(): AsyncGenerator<Sha256> {
    const { mirror } = this.#context;
    for (const { audits } of [...mirror.under(prefix.intervals), ...mirror.under(prefix.convictions)])
      for (const { stated, tasks } of Object.values(audits)) {
        for (const { statement } of stated) {
          if (statement.before !== "") yield statement.before as Sha256;
          yield statement.after;
        }
        // Those that were asked to repeat their work have stored what they came to.
        for (const { role, after } of tasks) if (role === "repeat" && after) yield after as Sha256;
      }
    for (const { durable } of mirror.under(prefix.vnodes)) for (const { hash } of Object.values(durable)) yield hash;
    for (const { initialStates = {}, status } of mirror.under(prefix.sessions))
      if (status !== "deleted") for (const { hash } of Object.values(initialStates)) yield hash;
    for (const { identity, draft, status } of mirror.under(prefix.replicas))
      if (status !== "deleted") yield* [...hashesOf(identity), ...hashesOf(draft)];
    for await (const { record } of listItems<ModelRecord>(mirror.store, prefix.models))
      yield* [...hashesOf(record), ...hashesOf(record.draft)];
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

/** The states that something is served from; none of a draft that there is not. */
export function hashesOf(served: { readonly states: Readonly<Record<string, StoredState>> } | undefined): Sha256[] {
  return Object.values(served?.states ?? {}).map(({ hash }) => hash);
}
