// What a PNode knows about the sessions that it works for: opened once for all VNodes of a session, until none is left.

import type { SessionId } from "../../core/ids.ts";
import type { SessionContext } from "../session-context.ts";

export class SessionContexts {
  readonly #open: (session: SessionId, computes: boolean) => Promise<SessionContext>;
  readonly #known = new Map<SessionId, Promise<SessionContext>>();
  readonly #opened = new Map<SessionId, SessionContext>();

  /** `computes`: whoever asks first is going to compute. */
  constructor(open: (session: SessionId, computes: boolean) => Promise<SessionContext>) {
    this.#open = open;
  }

  get(session: SessionId, computes = false): Promise<SessionContext> {
    const known = this.#known.get(session);
    if (known !== undefined) return known;
    const opening = this.#open(session, computes);
    this.#known.set(session, opening);
    opening.then(
      (context) => {
        if (this.#known.get(session) === opening) this.#opened.set(session, context);
      },
      () => this.#known.delete(session),
    );
    return opening;
  }

  /** Undefined while it is being opened, and for what nobody asked for. */
  opened(session: SessionId): SessionContext | undefined {
    return this.#opened.get(session);
  }

  forget(session: SessionId): void {
    this.#known.delete(session);
    this.#opened.delete(session);
  }
}
