// Generation in one process, without a network: the same graphs and caches, one call after the other. What the
// network is compared with.

import type { Tensor } from "../src/core/tensor.ts";
import type { Executor } from "../src/engine/engine.ts";
import { buildGeneration, generationHead } from "../src/network/graphs/generation.ts";
import { buildInference } from "../src/network/graphs/graphs.ts";
import type { Plan } from "../src/network/plan.ts";
import type { AnsweringGraphs } from "../src/network/works.ts";
import type { StateReader } from "../src/states/reader.ts";
import { VNodeGeneration } from "../src/vnode/serving/generation.ts";
import { ServingWeights } from "../src/vnode/serving/weights.ts";

export class LocalGenerator {
  readonly #plan: Plan;
  readonly #vnodes: { readonly id: string; readonly generation: VNodeGeneration }[] = [];
  readonly #executor: Executor;

  private constructor(plan: Plan, executor: Executor) {
    this.#plan = plan;
    this.#executor = executor;
  }

  /** By VNode. */
  static async open(plan: Plan, executor: Executor, states: ReadonlyMap<string, StateReader>): Promise<LocalGenerator> {
    const local = new LocalGenerator(plan, executor);
    const head = generationHead(plan).vnode;
    for (const id of plan.order) {
      const vnode = plan.vnodes.find((each) => each.id === id)!;
      const state = states.get(id)!;
      const own = vnode.parameters.map(({ name, shape, precision }) => ({
        name,
        stored: name,
        shape,
        precision,
        state,
      }));
      const tied = plan.edges
        .filter((edge) => edge.kind === "tie" && edge.to === id)
        .map(({ from, fromPort, toPort, shape }) => {
          return { name: toPort, stored: fromPort, shape, precision: "float32" as const, state: states.get(from)! };
        });
      const weights = await ServingWeights.load([...own, ...tied], executor);
      const graphs: AnsweringGraphs = {
        generation: async (options) => buildGeneration(plan, vnode, options),
        inference: async (microbatch) => buildInference(plan, vnode, { microbatch }),
      };
      const generation = await VNodeGeneration.open({ plan, vnode, graphs, executor, weights, name: id });
      local.#vnodes.push({ id, generation });
      if (id === head) break;
    }
    return local;
  }

  async #pass(position: number, ids: readonly number[]): Promise<number> {
    const values = new Map<string, Tensor>();
    const used: Tensor[] = [];
    let token = 0;
    for (const { id, generation } of this.#vnodes) {
      const vnode = this.#plan.vnodes.find((each) => each.id === id)!;
      const inputs: Record<string, Tensor> = {};
      for (const { name, source } of vnode.inputs)
        if (source === "inputs") inputs[name] = { dtype: "int32", shape: [1, ids.length], data: Int32Array.from(ids) };
      for (const edge of this.#plan.edges)
        if (edge.to === id && edge.kind === "activation") inputs[edge.toPort] = values.get(edge.id)!;
      const shape = { rows: [{ request: "r", position, ghost: false }], tokens: ids.length };
      const results = await generation.run(shape, inputs);
      for (const edge of this.#plan.edges)
        if (edge.from === id && results[edge.fromPort]) values.set(edge.id, results[edge.fromPort]!);
      used.push(...Object.values(results));
      if (results["logits"]) token = likeliest(results["logits"].data as Float32Array);
    }
    this.#executor.recycle(used);
    return token;
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
