// Gives served models replicas by load and takes them away again, to zero and back where that is allowed. A replica that goes is
// first named no more, so that nothing new comes to it, and ended when no orchestrator has a request there.

import type { ReplicaId } from "../../core/ids.ts";
import { wantedReplicas } from "../../scheduler/replicas.ts";
import type { Presence } from "../fleet/orchestrators/presence.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import type { Leases } from "../workloads/leases.ts";
import type { Loads } from "./loads.ts";
import { listModels } from "./models.ts";
import { endReplicas, type ServeNeeds, startReplicas } from "./serve.ts";
import { readyReplicas, type StatusNeeds } from "./status.ts";

export interface ScalingNeeds extends ServeNeeds, StatusNeeds {
  readonly presence: Presence;
  readonly leases: Leases;
}

/** Long answers are waited for, not for ever. */
const endingMsMost = 15 * 60_000;
/** Signs of life come once a second: within this everybody has heard that a replica is named no more. */
const endingMsLeast = 5_000;

export class ModelScaling {
  readonly #needs: ScalingNeeds;
  readonly #changedMs = new Map<string, number>();
  readonly #askedMs = new Map<string, number>();

  constructor(needs: ScalingNeeds) {
    this.#needs = needs;
  }

  async look(): Promise<void> {
    for (const model of await listModels(this.#needs.context)) {
      if (!model.scaling && !model.ending?.length) continue;
      if (await this.#needs.leases.holdModel(model.name)) await this.#tend(model);
    }
  }

  /** Somebody asks a model that has no replica: it gets one. */
  async wake(model: ModelRecord): Promise<ModelRecord> {
    return model.replicas.length > 0 || !model.scaling ? model : this.#to(model, 1, "somebody asks");
  }

  async #tend(model: ModelRecord): Promise<void> {
    const loads = this.#needs.presence.allLoads();
    await this.#endIdle(model, loads);
    const { scaling, name } = model;
    if (!scaling) return;
    const nowMs = this.#needs.context.world.clock.monotonicMs();
    const own = loads.flatMap(({ models }) => models[name] ?? []);
    const busy = own.reduce((sum, one) => sum + one.busy, 0);
    const waitMs = own.reduce((most, one) => Math.max(most, one.waitMs), 0);
    if (busy > 0 || !this.#askedMs.has(name)) this.#askedMs.set(name, nowMs);
    const wanted = wantedReplicas({
      ...{ least: scaling.least, most: scaling.most, current: model.replicas.length, busy, waitMs },
      ready: readyReplicas(this.#needs, model),
      sinceAskedMs: nowMs - (this.#askedMs.get(name) ?? nowMs),
      sinceChangeMs: nowMs - (this.#changedMs.get(name) ?? Number.NEGATIVE_INFINITY),
    });
    if (wanted === model.replicas.length) return;
    const why = busy > 0 ? `${busy} request(s) are under way` : "nobody asks";
    await this.#to(model, wanted, why);
  }

  async #to(model: ModelRecord, wanted: number, why: string): Promise<ModelRecord> {
    const { context } = this.#needs;
    const { mirror, world, events } = context;
    const { name, scaling } = model;
    if (!scaling) return model;
    const { identity, policy, requirements, vnodes } = scaling;
    const wish = {
      model: name,
      identity: { ...identity, definition: model.definition, states: model.states },
      policy,
      requirements,
      vnodes,
      ...(model.draft && { draft: model.draft }),
    };
    const replicas = await startReplicas(this.#needs, wish, wanted, model.replicas);
    const gone = model.replicas.filter((id) => !replicas.includes(id));
    const sinceWallMs = world.clock.wallMs();
    const { record, written } = await mirror.update(key.model(name), (current) => {
      // Somebody was faster: what was started for nothing is swept (unnamed.ts).
      if (!current?.scaling || current.replicas.join() !== model.replicas.join()) return undefined;
      const ending = [...(current.ending ?? []), ...gone.map((id) => ({ id, sinceWallMs }))];
      return { ...current, replicas, ending };
    });
    if (written) {
      this.#changedMs.set(name, world.clock.monotonicMs());
      events.emit(
        "info",
        "model.scaled",
        `model ${name} has ${replicas.length} replica(s), ${model.replicas.length} before: ${why}`,
      );
    }
    return record ?? model;
  }

  async #endIdle(model: ModelRecord, loads: readonly Loads[]): Promise<void> {
    const { mirror, world } = this.#needs.context;
    const nowMs = world.clock.wallMs();
    const isOver = ({ id, sinceWallMs }: { id: ReplicaId; sinceWallMs: number }) => {
      const ageMs = nowMs - sinceWallMs;
      const isAsked = loads.some(({ replicas }) => (replicas[id] ?? 0) > 0);
      return ageMs > endingMsMost || (ageMs > endingMsLeast && !isAsked);
    };
    const over = (model.ending ?? []).filter(isOver).map(({ id }) => id);
    if (over.length === 0) return;
    await endReplicas(this.#needs, over);
    await mirror.update(
      key.model(model.name),
      (current) => current && { ...current, ending: (current.ending ?? []).filter(({ id }) => !over.includes(id)) },
    );
  }
}
