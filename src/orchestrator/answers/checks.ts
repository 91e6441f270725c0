// What the store holds of checks of a replica's answers: how they came out, and who repeats one now.

import type { PNodeId, ReplicaId } from "../../core/ids.ts";
import type { Context } from "../context.ts";
import type { Presence } from "../fleet/orchestrators/presence.ts";
import type { AnswerChecksRecord, AnswerTask } from "../records/checking.ts";
import { key } from "../records/store-keys.ts";

/** Of a replica that is still there. */
export async function changeChecks(
  { mirror }: Pick<Context, "mirror">,
  replica: ReplicaId,
  change: (checks: AnswerChecksRecord) => AnswerChecksRecord,
): Promise<void> {
  if (mirror.get(key.replica(replica)) === undefined) return;
  const atFirst = { replica, right: 0, wrong: 0, unchecked: 0, canaries: 0, proved: [], tasks: [] };
  await mirror.update(key.checks(replica), (current) => change(current ?? atFirst));
}

/** Those that this orchestrator has asked to repeat an answer; they may read the model as long as they are noted. */
export class Repetitions {
  readonly #context: Pick<Context, "id" | "incarnation" | "mirror">;
  readonly #presence: Pick<Presence, "alive">;
  #count = 0;
  readonly #underWay = new Set<number>();

  constructor(context: Pick<Context, "id" | "incarnation" | "mirror">, presence: Pick<Presence, "alive">) {
    this.#context = context;
    this.#presence = presence;
  }

  /** Notes that the machine repeats an answer of the replica for as long as `repeat` takes. */
  async during<T>(replica: ReplicaId, pnode: PNodeId, repeat: () => Promise<T>): Promise<T> {
    const { id: orchestrator, incarnation } = this.#context;
    const number = ++this.#count;
    this.#underWay.add(number);
    try {
      await this.#note(replica, { pnode, orchestrator, incarnation, number });
      return await repeat();
    } finally {
      this.#underWay.delete(number);
      await this.#note(replica);
    }
  }

  #note(replica: ReplicaId, ...more: AnswerTask[]): Promise<void> {
    const tasks = (known: readonly AnswerTask[]) => [...known.filter((task) => this.#isUnderWay(task)), ...more];
    return changeChecks(this.#context, replica, (checks) => ({ ...checks, tasks: tasks(checks.tasks) }));
  }

  /** Those that nobody took out again were an orchestrator's that died. Clocks of orchestrators are not compared: they may be an hour apart. */
  #isUnderWay({ orchestrator, incarnation, number }: AnswerTask): boolean {
    const { id, incarnation: own } = this.#context;
    if (orchestrator === id && incarnation === own) return this.#underWay.has(number);
    return this.#presence.alive(orchestrator, incarnation);
  }
}
