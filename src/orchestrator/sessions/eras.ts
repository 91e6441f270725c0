// What a session does when the last machine of its numerics class is gone. States are plain bits, so any class can go on from a recovery
// line; but what follows has other bits. Where its owner allowed that (`--eras on`), the whole session goes back to the line, everything
// above is void, and the next placement chooses a class anew. Which class computed up to which step is recorded: a run is
// reproducible given its eras.

import { messageOf } from "../../core/errors.ts";
import type { SessionId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Capacity } from "../fleet/capacity/capacity.ts";
import type { SessionRecord } from "../records/sessions.ts";
import { prefix } from "../records/store-keys.ts";
import { isLive } from "../records/workloads.ts";
import { repair } from "../trust/repair.ts";
import type { Leases } from "../workloads/leases.ts";

export interface EraNeeds {
  readonly capacity: Pick<Capacity, "fleet">;
  readonly leases: Pick<Leases, "hold">;
}

/** A session changes its class so often at most: fleets that come and go would otherwise never let it reach its end. */
const erasMax = 100;

export class Eras {
  readonly #context: Context;
  readonly #needs: EraNeeds;
  readonly #patienceMs: number;
  /** Since when no machine of their class is here. */
  readonly #goneSinceMs = new Map<SessionId, number>();

  constructor(context: Context, needs: EraNeeds, patienceMs: number) {
    this.#context = context;
    this.#needs = needs;
    this.#patienceMs = patienceMs;
  }

  async look(): Promise<void> {
    const { mirror, world } = this.#context;
    const sessions = [...mirror.under(prefix.sessions)];
    const known = new Set(sessions.map(({ id }) => id));
    for (const id of this.#goneSinceMs.keys()) if (!known.has(id)) this.#goneSinceMs.delete(id);
    for (const session of sessions) {
      if (!isStranded(session, this.#needs.capacity.fleet.classes(session.identity.numerics))) {
        this.#goneSinceMs.delete(session.id);
        continue;
      }
      const nowMs = world.clock.monotonicMs();
      const sinceMs = this.#goneSinceMs.get(session.id) ?? nowMs;
      this.#goneSinceMs.set(session.id, sinceMs);
      if (nowMs - sinceMs >= this.#patienceMs && (await this.#needs.leases.hold(session.id)))
        await this.#begin(session);
    }
  }

  async #begin({ id, line, turn = 0, numericsClass, identity }: SessionRecord): Promise<void> {
    const because = `no machine of the ${identity.numerics} class ${numericsClass} is left, a new era begins`;
    try {
      // Asked again in the write: another orchestrator may have been faster, or the line may have moved.
      await repair(this.#context, id, { line, turn: turn + 1, because, change: (current) => nextEra(current, line) });
      this.#goneSinceMs.delete(id);
    } catch (thrown) {
      this.#context.world.log("warn", `session ${id} cannot begin a new era: ${messageOf(thrown)}`, { session: id });
    }
  }
}

/** Whether it may go on in another class, and only in another: `classes` are those of its engine that are here. */
export function isStranded(session: SessionRecord, classes: readonly string[]): boolean {
  const { policy, numericsClass, eras = [] } = session;
  if (policy.eras !== "on" || !isLive(session) || session.status === "suspended" || numericsClass === "") return false;
  return classes.length > 0 && !classes.includes(numericsClass) && eras.length < erasMax;
}

/** The class is chosen by the next placement, as at the session's start. */
export function nextEra({ eras = [], numericsClass }: SessionRecord, line: number): Partial<SessionRecord> {
  return { numericsClass: "", eras: [...eras, { class: numericsClass, to: line }] };
}
