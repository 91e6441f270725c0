// What is done for a replica of a served model beside placing its VNodes: nothing but forgetting it whole. Its PNodes
// load its weights from the states that its record names.

import type { PlacementPlan } from "../../scheduler/placement/types.ts";
import type { Mirror } from "../records/mirror.ts";
import type { ReplicaRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";
import { type Compiled, servingPlan } from "../sessions/compiled.ts";
import { type Garbage, hashesOf } from "../sessions/garbage.ts";
import type { Care } from "../workloads/care.ts";

export class ReplicaCare implements Care<ReplicaRecord> {
  readonly #mirror: Mirror;
  readonly #compiled: Compiled;
  readonly #garbage: Garbage;

  constructor(mirror: Mirror, compiled: Compiled, garbage: Garbage) {
    this.#mirror = mirror;
    this.#compiled = compiled;
    this.#garbage = garbage;
  }

  async plan({ id, identity, draft }: ReplicaRecord): Promise<PlacementPlan> {
    const beside = draft && { plan: await this.#compiled.plan(draft.definition), weights: draft.weights };
    return servingPlan(id, await this.#compiled.plan(identity.definition), identity.weights, beside);
  }

  initialStates(): Record<string, never> {
    return {};
  }

  async tend(): Promise<void> {}

  /** Without orchestrators nobody asks a model anything. */
  /** A pass goes through all of them. */
  /** All of a replica is in one. */
  classes(): undefined {
    return undefined;
  }

  goesOnWithout(): boolean {
    return false;
  }

  async settle(): Promise<boolean> {
    return true;
  }

  async ended(): Promise<void> {}

  /** The states stay as long as anybody else names them. */
  async erase({ id, identity, draft }: ReplicaRecord): Promise<void> {
    await this.#mirror.remove(key.checks(id));
    this.#garbage.add([...hashesOf(identity), ...hashesOf(draft)]);
  }
}
