// Which of a model's replicas answers a request, and where its head is.

import { DcnrError, fail } from "../../core/errors.ts";
import type { ReplicaId } from "../../core/ids.ts";
import { generationHead } from "../../network/graphs/generation.ts";
import { withKey } from "../../protocol/routes/address.ts";
import { joinRoutes } from "../../protocol/routes/routes.ts";
import type { Context } from "../context.ts";
import type { Assignments } from "../fleet/attached/assignments.ts";
import type { ModelRecord, ReplicaRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";
import type { Compiled } from "../sessions/compiled.ts";
import { ReplicaChoice } from "./replica-choice.ts";

export interface ReplicaNeeds {
  readonly context: Context;
  readonly compiled: Compiled;
  readonly assignments: Assignments;
}

/** Trying the same replica again is useless; asking the model again is not. */
export class ReplicaGone extends DcnrError {
  constructor(model: string) {
    super("aborted", `model ${model} was stopped or replaced while it answered: ask again`, { outlook: "final" });
  }
}

/** So many requests are no reason for another to wait behind them, whatever was read there. */
const crowded = 16;

export class Replicas {
  readonly #needs: ReplicaNeeds;
  readonly choice = new ReplicaChoice();
  readonly #requests = new Map<ReplicaId, number>();

  constructor(needs: ReplicaNeeds) {
    this.#needs = needs;
  }

  /**
   * Of two drawn at random, and the one that has read most of the prompt before, the one that should answer first: nearly as good as knowing
   * all of them, and never a stampede.
   */
  choose(
    { name, replicas }: ModelRecord,
    prompt: readonly number[] = [],
    except: ReadonlySet<ReplicaId> = new Set(),
  ): ReplicaId {
    if (replicas.length === 0) fail("failed_precondition", `model ${name} is not served: dcnr serve ${name}`);
    const running = replicas.filter((id) => !except.has(id) && this.#record(id)?.status === "running");
    const among = running.length > 0 ? running : replicas;
    const { chance } = this.#needs.context.world;
    const draw = () => among[Math.floor(chance.uniform() * among.length)] as ReplicaId;
    const drawn = [draw(), draw()];
    const before = this.choice.reader(name, prompt, among);
    const reader = before && this.#load(before.replica) < crowded ? before : undefined;
    const expectedMs = (id: ReplicaId) =>
      this.choice.expectedMs(id, this.#load(id), prompt.length - (reader?.replica === id ? reader.tokens : 0));
    // Who has read it stands first: it is chosen where all look alike.
    const candidates = reader ? [reader.replica, ...drawn] : drawn;
    return candidates.reduce((best, id) => {
      const [ms, bestMs] = [expectedMs(id), expectedMs(best)];
      if (ms !== bestMs) return ms < bestMs ? id : best;
      return best !== reader?.replica && this.#load(id) < this.#load(best) ? id : best;
    });
  }

  #load(replica: ReplicaId): number {
    return this.#requests.get(replica) ?? 0;
  }

  /** Requests under way, by replica. */
  requests(): Record<string, number> {
    return Object.fromEntries(this.#requests);
  }

  /** Counts a request until the returned function is called. */
  occupy(replica: ReplicaId): () => void {
    this.#requests.set(replica, this.#load(replica) + 1);
    return () => {
      const left = this.#load(replica) - 1;
      if (left > 0) this.#requests.set(replica, left);
      else this.#requests.delete(replica);
    };
  }

  /** Where the PNode beside the head is called. Fails with `unavailable` while the replica is being placed. */
  async head({ name }: ModelRecord, id: ReplicaId): Promise<string> {
    const replica = this.#record(id) ?? (await this.#needs.context.mirror.read(key.replica(id)));
    if (replica?.status === "failed") fail("failed_precondition", `model ${name} cannot be served: ${replica.reason}`);
    if (!replica || !isLive(replica)) throw new ReplicaGone(name);
    const plan = await this.#needs.compiled.plan(replica.identity.definition);
    const { vnode } = generationHead(plan);
    const place = this.#needs.assignments.locations(replica, new Set([vnode]))[0];
    const reason = replica.reason ? `: ${replica.reason}` : "";
    if (place === undefined) fail("unavailable", `model ${name} is being placed${reason}`);
    return withKey(joinRoutes(place.routes), place.pnode);
  }

  #record(id: ReplicaId): ReplicaRecord | undefined {
    return this.#needs.context.mirror.get(key.replica(id));
  }
}
