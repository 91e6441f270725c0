// The draft of a served model: a whole smaller model on the machine of the head, loaded after it. Where it fails, answers come without it; a
// worker that died with its weights is no reason to give it up.

import { hasCode, messageOf } from "../../core/errors.ts";
import type { Sha256 } from "../../core/ids.ts";
import type { World } from "../../core/world.ts";
import type { EngineKind, Executor, StageExecutor } from "../../engine/engine.ts";
import { cachePositionsMax, contextOf } from "../../network/graphs/generation.ts";
import { bitsOf } from "../../network/weight-format.ts";
import type { StateReader } from "../../states/reader.ts";
import { type Chain, headOutputs, runChain } from "../../vnode/serving/chain.ts";
import { VNodeGeneration } from "../../vnode/serving/generation.ts";
import { ServingWeights } from "../../vnode/serving/weights.ts";
import { type Drafter, type DrafterOptions, ModelDrafter } from "./drafter.ts";
import type { ServingContext } from "./serving-context.ts";
import { wantedWeights } from "./wanted-weights.ts";

export interface DraftNeeds {
  /** Of the draft. */
  readonly context: ServingContext;
  /** Tokens that the large model knows. */
  readonly vocabulary: number;
  /** Unique among what executors run. */
  readonly name: string;
  readonly world: World;
  readonly executor: (engine: EngineKind) => Promise<Executor>;
  /** After the head, and one VNode's weights at a time. */
  readonly inTurn: <T>(load: () => Promise<T>) => Promise<T>;
  readonly openState: (state: Sha256) => Promise<StateReader>;
}

interface Loaded {
  readonly drafter: ModelDrafter;
  readonly generations: readonly VNodeGeneration[];
}

export class DraftModel {
  readonly #needs: DraftNeeds;
  #loaded: Loaded | undefined;
  #loading: Promise<void>;
  #closed = false;

  constructor(needs: DraftNeeds) {
    this.#needs = needs;
    this.#loading = this.#load();
  }

  /** Undefined while it loads, and where it cannot. */
  get drafter(): Drafter | undefined {
    return this.#loaded?.drafter;
  }

  async #load(): Promise<void> {
    const { context, world } = this.#needs;
    const generations: VNodeGeneration[] = [];
    try {
      const executor = await this.#needs.executor(context.numerics);
      const stage = executor.openStage();
      const links = new Map<string, VNodeGeneration>();
      for (const id of context.plan.order.filter((one) => context.needed.has(one))) {
        if (this.#closed) break;
        const generation = await this.#needs.inTurn(() => this.#open(id, executor, stage));
        generations.push(generation);
        links.set(id, generation);
      }
      if (this.#closed) return void (await closeAll(generations));
      const drafter = this.#drafter(stage, chainOf(context, links));
      await drafter.measure();
      this.#loaded = { drafter, generations };
      world.log("info", `${context.plan.name} guesses beside the head`);
    } catch (error) {
      await closeAll(generations);
      world.log("warn", `answers come without a draft: ${messageOf(error)}`);
    }
  }

  async #open(id: string, executor: Executor, stage: StageExecutor): Promise<VNodeGeneration> {
    const { context, openState, name } = this.#needs;
    const vnode = context.vnode(id);
    const unit = await context.graphsOf(vnode).unit();
    const weights = await ServingWeights.load(await wantedWeights(context, vnode, openState), executor);
    return VNodeGeneration.open({ unit, stage, weights, name: `${name}/${id}`, bits: bitsOf(context.weights) });
  }

  #drafter(stage: StageExecutor, chain: Chain & { readonly port: string }): ModelDrafter {
    const { context, world, vocabulary } = this.#needs;
    const positions = contextOf(context.plan);
    const run: DrafterOptions["run"] = async (rows, ids, take) => {
      const inputs = { [chain.port]: { dtype: "int32" as const, shape: [ids.length, 1], data: ids } };
      const { outputs } = await runChain(stage, chain, rows, inputs, positions);
      const { logits } = headOutputs(outputs);
      const width = logits?.shape.at(-1) ?? 0;
      take({ values: (logits?.data ?? new Float32Array(0)) as Float32Array, width });
      stage.recycle(Object.values(outputs));
    };
    return new ModelDrafter({
      ...{ world, run, context: positions, positionsMax: cachePositionsMax(context.plan) },
      vocabulary: Math.min(vocabulary, context.plan.inputs?.below ?? 0),
      drop: (requests) => {
        for (const generation of chain.links.values()) generation.drop(requests);
      },
      onFailure: (error) => this.#failed(error),
    });
  }

  #failed(error: unknown): void {
    const { generations = [] } = this.#loaded ?? {};
    this.#loaded = undefined;
    this.#loading = closeAll(generations).then(() =>
      this.#closed || !hasCode(error, "unavailable") ? undefined : this.#load(),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#loaded?.drafter.close();
    await this.#loading;
    await closeAll(this.#loaded?.generations ?? []);
    this.#loaded = undefined;
  }
}

/** The whole network: what is chosen goes into every port that takes tokens. */
function chainOf(context: ServingContext, links: ReadonlyMap<string, VNodeGeneration>) {
  const takers = [...links.keys()].flatMap((vnode) =>
    context
      .vnode(vnode)
      .inputs.filter(({ source }) => source === "inputs")
      .map(({ name: port }) => ({ vnode, port })),
  );
  const [first, ...beside] = takers;
  return { links, inner: context.onward, leaving: [], head: context.head, beside, port: first?.port ?? "" };
}

async function closeAll(generations: readonly VNodeGeneration[]): Promise<void> {
  for (const generation of generations) await generation.close();
}
