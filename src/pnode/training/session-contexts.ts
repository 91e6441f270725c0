// What a PNode knows about the sessions that it works for: opened once for all VNodes of a session, until none is left.

import type { SessionId } from "../../core/ids.ts";
import type { SessionContext } from "../session-context.ts";

export class SessionContexts {
  readonly #open: (session: SessionId) => Promise<SessionContext>;
  readonly #known = new Map<SessionId, Promise<SessionContext>>();

  constructor(open: (session: SessionId) => Promise<SessionContext>) {
    this.#open = open;
  }

  get(session: SessionId): Promise<SessionContext> {
    const known = this.#known.get(session);
    if (known !== undefined) return known;
    const opening = this.#open(session);
    this.#known.set(session, opening);
    opening.catch(() => this.#known.delete(session));
    return opening;
  }

  forget(session: SessionId): void {
    this.#known.delete(session);
  }
}
