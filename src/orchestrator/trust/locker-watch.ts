// Whether everything that an interval was sent is stored by now, so that somebody can repeat it. Remembers what it has seen, and stops where nothing is there
// yet: an interval has hundreds of messages, and is looked at again and again until the last of them has come.

import { auditBlobBytesMax } from "../../core/blobs.ts";
import { Recent } from "../../core/caches/recent.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { Statement } from "../../trust/statement.ts";
import { inputHashes } from "../../trust/works.ts";
import type { Context } from "../context.ts";
import type { AuditRecord, Stated } from "../records/checking.ts";
import { prefix } from "../records/store-keys.ts";
import { damagedBlobs, isLost } from "../sessions/stored-states.ts";
import { forEachAtOnce } from "../tasks.ts";
import { Waits } from "./waits.ts";

const asksAtOnce = 8;
/** Sessions change many times a second, and each change is a reason to see what can be decided; messages of an interval come over many seconds. */
const lookEveryMs = 500;
/** So many are remembered before those that nobody waits for any more are looked for. */
const watchedLeast = 64;

/** What is known of one statement's inputs. */
interface Watched {
  /** The messages that went in; undefined until their list could be read. */
  wanted?: readonly Sha256[] | undefined;
  /** Those of them that are stored. */
  readonly present: Set<string>;
  /** When something was last found missing. */
  lookedMs?: number;
  /** The newest failure after which everything was looked at and found whole. */
  found?: number;
}

export class LockerWatch {
  readonly #context: Context;
  readonly #watched = new Map<string, Watched>();
  /** What was found of states after the newest failure to measure somebody by them. */
  readonly #measured = new Recent<string, { readonly newest: number; readonly isWhole: boolean }>(watchedLeast);
  /** Since something was last found stored that was missing before. */
  readonly #quiet: Waits;
  #tidyAt = watchedLeast;

  constructor(context: Context) {
    this.#context = context;
    this.#quiet = new Waits(context.world.clock);
  }

  /** All messages that went in are stored. Where some were missing a moment ago they still are. */
  async isWhole(stated: readonly Stated[]): Promise<boolean> {
    const nowMs = this.#context.world.clock.monotonicMs();
    const isSoon = (one: Stated) => nowMs - (this.#of(one).lookedMs ?? Number.NEGATIVE_INFINITY) < lookEveryMs;
    return !stated.some(isSoon) && (await this.#look(stated, (news) => news > 0));
  }

  /** The same, having asked for each that was missing: whoever is to say what is missing has to know. */
  isWholeAfterAll(stated: readonly Stated[]): Promise<boolean> {
    return this.#look(stated, () => true);
  }

  /** Senders store in about the order in which they sent: after a handful of which none is there, `goesOn` is asked. */
  async #look(stated: readonly Stated[], goesOn: (news: number) => boolean): Promise<boolean> {
    const { clock } = this.#context.world;
    for (const one of stated) {
      const watched = this.#of(one);
      const { present } = watched;
      watched.wanted ??= await this.#messagesOf(one.statement);
      const missing = watched.wanted?.filter((hash) => !present.has(hash)) ?? [];
      const before = present.size;
      for (let at = 0, news = 1; at < missing.length && goesOn(news); at += asksAtOnce) {
        const known = present.size;
        await forEachAtOnce(missing.slice(at, at + asksAtOnce), asksAtOnce, async (hash) => {
          const size = await this.#context.blobs.states.size(hash);
          if (size !== undefined && size <= auditBlobBytesMax) present.add(hash);
        });
        news = present.size - known;
      }
      if (present.size > before) this.#quiet.beginAgain(nameOf(one));
      if (!isComplete(watched)) {
        watched.lookedMs = clock.monotonicMs();
        return false;
      }
    }
    return true;
  }

  /** For how long nothing has been stored that one of them waits for; only while this orchestrator was there to look. */
  quietMs(stated: readonly Stated[]): number {
    for (const one of stated) this.#of(one);
    return Math.min(...stated.map((one) => this.#quiet.ms(nameOf(one))));
  }

  /** The first of them that cannot be repeated from what is stored, and what is. */
  lacking(stated: readonly Stated[]): { readonly of: Stated; readonly present: ReadonlySet<string> } {
    const of = stated.find((one) => !isComplete(this.#of(one))) ?? (stated[0] as Stated);
    return { of, present: this.#of(of).present };
  }

  /** Somebody says that it could not repeat it: whether the blob store has lost or spoiled anything of what that takes. */
  async isSpoiled({ stated, tasks }: Pick<AuditRecord, "stated" | "tasks">): Promise<boolean> {
    const failures = tasks.flatMap(({ wasUnable, sinceWallMs }) => (wasUnable ? [sinceWallMs] : []));
    const newest = Math.max(...failures);
    if (failures.length === 0) return false;
    for (const one of stated) if (await this.#isDamaged(one, newest)) return true;
    return false;
  }

  /** States that somebody should be measured by, where whoever tried says that it could not, and the blob store has them no more, or never had. */
  async unreadable({ tasks }: Pick<AuditRecord, "tasks">): Promise<ReadonlySet<string>> {
    const failures = new Map<string, number>();
    for (const { role, wasUnable, against = "", sinceWallMs } of tasks)
      if (role === "measure" && wasUnable) failures.set(against, Math.max(sinceWallMs, failures.get(against) ?? 0));
    const found = new Set<string>();
    for (const [state, newest] of failures) {
      const known = this.#measured.get(state);
      const isWhole =
        known?.newest === newest
          ? known.isWhole
          : (await damagedBlobs(this.#context.blobs.states, state as Sha256, () => false)).length === 0;
      this.#measured.set(state, { newest, isWhole });
      if (!isWhole) found.add(state);
    }
    return found;
  }

  async #isDamaged(one: Stated, newest: number): Promise<boolean> {
    const { before, inputs } = one.statement;
    const watched = this.#of(one);
    if (watched.found === newest) return false;
    const { states } = this.#context.blobs;
    if (before !== "" && (await damagedBlobs(states, before as Sha256, () => false)).length > 0) return true;
    // Whoever found it whole may have been another orchestrator.
    watched.wanted ??= await this.#messagesOf(one.statement);
    for (const hash of [inputs, ...(watched.wanted ?? [])])
      try {
        await states.get(hash);
      } catch (thrown) {
        if (isLost(thrown)) return true;
        throw thrown;
      }
    watched.found = newest;
    return false;
  }

  /** Undefined for a list that is not there or cannot be read: nobody can repeat what it is stated for. */
  async #messagesOf({ session, vnode, from, to, inputs }: Statement): Promise<readonly Sha256[] | undefined> {
    const { aside, blobs } = this.#context;
    try {
      const hashes = await inputHashes(aside, await blobs.states.get(inputs), { session, vnode, from, to });
      return hashes as Sha256[];
    } catch (thrown) {
      if (isLost(thrown)) return undefined;
      throw thrown;
    }
  }

  /** What lies in the locker for these statements, as far as is known: it is not needed any more. */
  empty(stated: readonly Stated[]): Sha256[] {
    return stated.flatMap((one) => {
      const name = nameOf(one);
      const { wanted = [] } = this.#watched.get(name) ?? {};
      this.#forget(name);
      return [...wanted];
    });
  }

  #of(one: Stated): Watched {
    const name = nameOf(one);
    const known = this.#watched.get(name);
    if (known !== undefined) return known;
    if (this.#watched.size >= this.#tidyAt) this.#tidy();
    const watched: Watched = { present: new Set() };
    this.#watched.set(name, watched);
    return watched;
  }

  /** An interval may end where nobody empties this: another orchestrator closed it, or the session went back before it. */
  #tidy(): void {
    const intervals = this.#context.mirror.under(prefix.intervals);
    const awaited = new Set(
      intervals.flatMap(({ audits }) => Object.values(audits).flatMap(({ stated }) => stated.map(nameOf))),
    );
    for (const name of this.#watched.keys()) if (!awaited.has(name)) this.#forget(name);
    this.#tidyAt = 2 * this.#watched.size + watchedLeast;
  }

  #forget(name: string): void {
    this.#watched.delete(name);
    this.#quiet.end(name);
  }
}

/**
 * One life's statement in one turn, and never its list alone: who computes the same again on the same machine lists the same, and has
 * been silent for no longer than it has been asked; and what was stored for an earlier turn may be gone by now.
 */
function nameOf({ turn, statement }: Stated): string {
  return `${turn} ${statement.signature}`;
}

function isComplete({ wanted, present }: Watched): boolean {
  return wanted !== undefined && present.size === wanted.length;
}
