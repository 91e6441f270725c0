// VNodes that this PNode will host if another one does not come back: loaded while that one is only in doubt, handed
// out when the assignment comes, closed when it does not come.

import { messageOf } from "../../core/errors.ts";
import type { SessionId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { Cancel, World } from "../../core/world.ts";
import { type Assignment, hostKey } from "../assignment.ts";
import type { Life } from "./life.ts";

/** Loads a life; undefined if the signal aborts on the way. */
export type OpenAhead = (assignment: Assignment, signal: AbortSignal) => Promise<Life | undefined>;

/** Longer than any grace: by then the other one is back. */
const keptMs = 5_000;

interface Prepared {
  readonly assignment: Assignment;
  readonly life: Promise<Life | undefined>;
  readonly ending: AbortController;
  readonly cancelExpiry: Cancel;
}

export class PreparedLives {
  readonly #open: OpenAhead;
  readonly #world: World;
  readonly #tasks: Tasks;
  readonly #lives = new Map<string, Prepared>();
  /** Hears of sessions of which something was given up. */
  onDiscarded: (session: SessionId) => void = () => {};

  constructor(open: OpenAhead, world: World, tasks: Tasks) {
    this.#open = open;
    this.#world = world;
    this.#tasks = tasks;
  }

  prepare(assignment: Assignment): void {
    const { session, vnode } = assignment;
    const key = hostKey(session, vnode);
    const known = this.#lives.get(key);
    if (known !== undefined && startAlike(known.assignment, assignment)) return;
    this.#discard(key);
    const ending = new AbortController();
    const life = this.#open(assignment, ending.signal);
    const { log, timers } = this.#world;
    // Whoever needs it later tries by himself, and says what is wrong.
    life.catch((error) => log("debug", `VNode ${vnode} cannot be prepared: ${messageOf(error)}`, { session, vnode }));
    const cancelExpiry = timers.after(keptMs, () => this.#discard(key));
    this.#lives.set(key, { assignment, life, ending, cancelExpiry });
  }

  /** What was loaded for this start, if anything was. The caller has to close it. */
  take(assignment: Assignment): Promise<Life | undefined> | undefined {
    const key = hostKey(assignment.session, assignment.vnode);
    const prepared = this.#lives.get(key);
    if (prepared === undefined || !startAlike(prepared.assignment, assignment)) return undefined;
    this.#lives.delete(key);
    prepared.cancelExpiry();
    return prepared.life;
  }

  has(session: string): boolean {
    return [...this.#lives.values()].some(({ assignment }) => assignment.session === session);
  }

  stop(): void {
    for (const key of this.#lives.keys()) this.#discard(key);
  }

  #discard(key: string): void {
    const prepared = this.#lives.get(key);
    if (prepared === undefined) return;
    this.#lives.delete(key);
    prepared.cancelExpiry();
    prepared.ending.abort();
    this.#tasks.run("close what was prepared", async () => {
      const life = await prepared.life.catch(() => undefined);
      await life?.compute.close();
      this.onDiscarded(prepared.assignment.session);
    });
  }
}

function startAlike(a: Assignment, b: Assignment): boolean {
  return a.line === b.line && a.state === b.state && a.turn === b.turn && a.numericsClass === b.numericsClass;
}
