// Sessions of which this PNode may have to take something over: its threads run and their graphs are built before anybody is
// lost. States are not loaded, since the line moves on, and no room is held.

import { messageOf } from "../../core/errors.ts";
import type { SessionId, VNodeId } from "../../core/ids.ts";
import type { Tasks } from "../../core/tasks.ts";
import type { Log } from "../../core/world.ts";

/** Orchestrators name fewer; each takes memory. */
const sessionsMax = 8;
const vnodesMax = 64;

export interface StandingByOptions {
  readonly tasks: Tasks;
  readonly log: Log;
  readonly warm: (session: SessionId, vnodes: readonly VNodeId[]) => Promise<void>;
  /** Nobody expects anything any more of a session. */
  readonly onLeft: (session: SessionId) => void;
}

export class StandingBy {
  readonly #options: StandingByOptions;
  readonly #sessions = new Map<SessionId, Set<VNodeId>>();
  #warming: Promise<void> = Promise.resolve();

  constructor(options: StandingByOptions) {
    this.#options = options;
  }

  has(session: SessionId): boolean {
    return this.#sessions.has(session);
  }

  /** The list is whole. */
  told(sessions: readonly { readonly session: string; readonly vnodes: readonly string[] }[]): void {
    const listed = new Map(
      sessions
        .slice(0, sessionsMax)
        .map(({ session, vnodes }) => [session as SessionId, vnodes.slice(0, vnodesMax) as VNodeId[]]),
    );
    for (const session of [...this.#sessions.keys()])
      if (!listed.has(session)) {
        this.#sessions.delete(session);
        this.#options.onLeft(session);
      }
    for (const [session, vnodes] of listed) {
      const known = this.#sessions.get(session) ?? new Set();
      const more = vnodes.filter((vnode) => !known.has(vnode));
      this.#sessions.set(session, new Set([...known, ...more]));
      if (more.length > 0 || known.size === 0) this.#warm(session, more);
    }
  }

  /** One after the other: nobody waits for it, and others use the machine. */
  #warm(session: SessionId, vnodes: readonly VNodeId[]): void {
    const { tasks, log, warm } = this.#options;
    const before = this.#warming;
    const warming = before.then(async () => {
      if (!this.has(session)) return;
      try {
        await warm(session, vnodes);
      } catch (error) {
        // Whoever needs it later tries by himself, and says what is wrong.
        log("debug", `this PNode does not stand by for session ${session}: ${messageOf(error)}`, { session });
      }
    });
    this.#warming = warming;
    tasks.run(`stand by for session ${session}`, () => warming);
  }
}
