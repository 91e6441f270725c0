// Which of a model's replicas answers a request, and where its head is.

import { fail } from "../../core/errors.ts";
import type { SessionId } from "../../core/ids.ts";
import { generationHead } from "../../network/generation.ts";
import { withKey } from "../../protocol/address.ts";
import type { Context } from "../context.ts";
import type { Assignments } from "../fleet/assignments.ts";
import { isLive } from "../fleet/assignments.ts";
import { key, type ModelRecord, type SessionRecord } from "../records/records.ts";
import type { Compiled } from "../sessions/compiled.ts";

export interface ReplicaNeeds {
  readonly context: Context;
  readonly compiled: Compiled;
  readonly assignments: Assignments;
}

export class Replicas {
  readonly #needs: ReplicaNeeds;
  readonly #requests = new Map<SessionId, number>();

  constructor(needs: ReplicaNeeds) {
    this.#needs = needs;
  }

  /** Of two drawn at random the one with less to do: nearly as good as knowing all loads, and never a stampede. */
  choose({ name, sessions }: ModelRecord, except: ReadonlySet<SessionId> = new Set()): SessionId {
    if (sessions.length === 0) fail("failed_precondition", `model ${name} is not served: dcnr serve ${name}`);
    const running = sessions.filter((id) => !except.has(id) && this.#session(id)?.status === "running");
    const among = running.length > 0 ? running : sessions;
    const { chance } = this.#needs.context.world;
    const draw = () => among[Math.floor(chance.uniform() * among.length)] as SessionId;
    const [a, b] = [draw(), draw()];
    return this.#load(a) <= this.#load(b) ? a : b;
  }

  #load(session: SessionId): number {
    return this.#requests.get(session) ?? 0;
  }

  /** Counts a request until the returned function is called. */
  occupy(session: SessionId): () => void {
    this.#requests.set(session, this.#load(session) + 1);
    return () => {
      const left = this.#load(session) - 1;
      if (left > 0) this.#requests.set(session, left);
      else this.#requests.delete(session);
    };
  }

  /** Address of the PNode beside the head. Fails with `unavailable` while the replica is being placed. */
  async head({ name }: ModelRecord, id: SessionId): Promise<string> {
    const session = this.#session(id) ?? (await this.#needs.context.mirror.read(key.session(id)));
    if (session?.status === "failed") fail("failed_precondition", `model ${name} cannot be served: ${session.reason}`);
    if (!session || !isLive(session))
      fail("failed_precondition", `model ${name} was stopped or replaced while it answered: ask again`);
    const plan = await this.#needs.compiled.plan(session.identity.definition);
    const { vnode } = generationHead(plan);
    const place = this.#needs.assignments.locations(session, new Set([vnode]))[0];
    const reason = session.reason ? `: ${session.reason}` : "";
    if (place === undefined) fail("unavailable", `model ${name} is being placed${reason}`);
    return withKey(place.address, place.pnode);
  }

  #session(id: SessionId): SessionRecord | undefined {
    return this.#needs.context.mirror.get(key.session(id));
  }
}
