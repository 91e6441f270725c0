// Whether everything that an interval was sent is stored by now, so that somebody can repeat it. Remembers what it has seen, so that
// each blob is asked for once.

import { hasCode } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { Statement } from "../../trust/statement.ts";
import { inputHashes } from "../../trust/works.ts";
import type { Context } from "../context.ts";
import type { AuditRecord, Stated } from "../records/checking.ts";
import { damagedBlobs, isLost } from "../sessions/stored-states.ts";
import { forEachAtOnce } from "../tasks.ts";

const asksAtOnce = 8;
const messageBytesMax = 64 << 20;

export class LockerWatch {
  readonly #context: Context;
  /** By the list of inputs: the messages that it names, and those of them that are stored. */
  readonly #wanted = new Map<string, readonly Sha256[]>();
  readonly #present = new Map<string, Set<string>>();
  /** When something was last found stored that was missing before. */
  readonly #grewMs = new Map<string, number>();
  /** The newest failure after which everything was looked at and found whole. */
  readonly #looked = new Map<string, number>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** All messages that went in are stored. */
  async isWhole(stated: readonly Stated[]): Promise<boolean> {
    for (const { statement } of stated) {
      const { inputs } = statement;
      const wanted = this.#wanted.get(inputs) ?? (await this.#messagesOf(statement));
      if (wanted === undefined) return false;
      this.#wanted.set(inputs, wanted);
      const present = this.#present.get(inputs) ?? new Set();
      this.#present.set(inputs, present);
      const missing = wanted.filter((hash) => !present.has(hash));
      const before = present.size;
      await forEachAtOnce(missing, asksAtOnce, async (hash) => {
        const size = await this.#context.blobs.states.size(hash);
        if (size !== undefined && size <= messageBytesMax) present.add(hash);
      });
      if (present.size > before) this.#grewMs.set(inputs, this.#context.world.clock.monotonicMs());
      if (present.size < wanted.length) return false;
    }
    return true;
  }

  /** For how long nothing has been stored that one of them waits for; as long as this orchestrator has looked, at most. */
  quietMs(stated: readonly Stated[]): number {
    const nowMs = this.#context.world.clock.monotonicMs();
    return Math.min(
      ...stated.map(({ statement: { inputs } }) => {
        const sinceMs = this.#grewMs.get(inputs) ?? nowMs;
        this.#grewMs.set(inputs, sinceMs);
        return nowMs - sinceMs;
      }),
    );
  }

  /** The first of them that cannot be repeated from what is stored, and what is. */
  lacking(stated: readonly Stated[]): { readonly of: Stated; readonly present: ReadonlySet<string> } {
    const presentOf = ({ statement: { inputs } }: Stated) => this.#present.get(inputs) ?? new Set<string>();
    const of = stated.find((one) => {
      const wanted = this.#wanted.get(one.statement.inputs);
      return wanted === undefined || presentOf(one).size < wanted.length;
    });
    return { of: of ?? (stated[0] as Stated), present: presentOf(of ?? (stated[0] as Stated)) };
  }

  /** Somebody says that it could not repeat it: whether the blob store has lost or spoiled anything of what that takes. */
  async isSpoiled({ stated, tasks }: Pick<AuditRecord, "stated" | "tasks">): Promise<boolean> {
    const failures = tasks.flatMap(({ wasUnable, sinceWallMs }) => (wasUnable ? [sinceWallMs] : []));
    const newest = Math.max(...failures);
    if (failures.length === 0) return false;
    for (const { statement } of stated) if (await this.#isDamaged(statement, newest)) return true;
    return false;
  }

  async #isDamaged({ before, inputs }: Statement, newest: number): Promise<boolean> {
    if (this.#looked.get(inputs) === newest) return false;
    const { states } = this.#context.blobs;
    if (before !== "" && (await damagedBlobs(states, before as Sha256, () => false)).length > 0) return true;
    for (const hash of [inputs, ...(this.#wanted.get(inputs) ?? [])])
      try {
        await states.get(hash);
      } catch (thrown) {
        if (isLost(thrown)) return true;
        throw thrown;
      }
    this.#looked.set(inputs, newest);
    return false;
  }

  /** Undefined for a list that is not there or cannot be read: nobody can repeat what it is stated for. */
  async #messagesOf({ session, vnode, from, to, inputs }: Statement): Promise<readonly Sha256[] | undefined> {
    const { aside, blobs } = this.#context;
    try {
      const hashes = await inputHashes(aside, await blobs.states.get(inputs), { session, vnode, from, to });
      return hashes as Sha256[];
    } catch (thrown) {
      if (isLost(thrown) || hasCode(thrown, "invalid_argument")) return undefined;
      throw thrown;
    }
  }

  /** What lies in the locker for these statements, as far as is known: it is not needed any more. */
  empty(stated: readonly Stated[]): Sha256[] {
    return stated.flatMap(({ statement: { inputs } }) => {
      const messages = this.#wanted.get(inputs) ?? [];
      this.#wanted.delete(inputs);
      this.#present.delete(inputs);
      this.#looked.delete(inputs);
      this.#grewMs.delete(inputs);
      return [...messages];
    });
  }
}
