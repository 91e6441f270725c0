// Generation in one process, without a network: the same units and caches, one call after the other. What the
// network is compared with.

import { elementCount, float32 } from "../src/core/tensor.ts";
import type { Executor } from "../src/engine/engine.ts";
import type { Plan } from "../src/network/plan.ts";
import type { StateReader } from "../src/states/reader.ts";
import { LocalStage } from "../src/vnode/serving/local-stage.testing.ts";

export class LocalGenerator {
  readonly #stage: LocalStage;

  private constructor(stage: LocalStage) {
    this.#stage = stage;
  }

  /** States by VNode. */
  static async open(plan: Plan, executor: Executor, states: ReadonlyMap<string, StateReader>): Promise<LocalGenerator> {
    const owners = new Map(
      plan.vnodes.flatMap((vnode) => vnode.parameters.map(({ name, shape }) => [name, { vnode: vnode.id, shape }])),
    );
    const load = async (name: string) => {
      const { vnode, shape } = owners.get(name)!;
      const into = new Float32Array(elementCount(shape));
      await states.get(vnode)!.readInto([{ name, shape, into }]);
      return float32(shape, into);
    };
    return new LocalGenerator(await LocalStage.open(plan, executor, load));
  }

  async #pass(position: number, ids: readonly number[]): Promise<number> {
    const [logits] = await this.#stage.pass([{ request: "r", position, ids }]);
    return likeliest(logits!);
  }

  async *generate(prompt: readonly number[], maxTokens: number): AsyncGenerator<number> {
    let token = await this.#pass(0, prompt);
    yield token;
    for (let made = 1; made < maxTokens; made++) {
      token = await this.#pass(prompt.length + made - 1, [token]);
      yield token;
    }
  }
}

function likeliest(logits: Float32Array): number {
  let best = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i]! > logits[best]!) best = i;
  return best;
}
