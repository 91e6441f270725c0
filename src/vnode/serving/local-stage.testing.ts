// A network that generates, on one executor and without a network between: all its VNodes as one chain. What tests and
// benchmarks compare passes by.

import type { VNodeId } from "../../core/ids.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Executor, StageExecutor } from "../../engine/engine.ts";
import type { WeightBits } from "../../graph/quantise.ts";
import { hiddenOutput, logitsOutput } from "../../graph/unit.ts";
import { contextOf, generationHead } from "../../network/graphs/generation.ts";
import { buildUnit } from "../../network/graphs/unit.ts";
import type { Plan } from "../../network/plan.ts";
import type { StateReader } from "../../states/reader.ts";
import { type Chain, type ChainRow, runChain } from "./chain.ts";
import { VNodeGeneration } from "./generation.ts";
import { ServingWeights } from "./weights.ts";

export interface LocalRow {
  readonly request: string;
  readonly position: number;
  readonly ids: readonly number[];
  /** Of the last token alone if absent. */
  readonly logits?: number;
  readonly hidden?: number;
  readonly shared?: ChainRow["shared"];
  readonly adapter?: number;
}

export class LocalStage {
  readonly #plan: Plan;
  readonly #stage: StageExecutor;
  readonly #chain: Chain;

  private constructor(plan: Plan, stage: StageExecutor, chain: Chain) {
    this.#plan = plan;
    this.#stage = stage;
    this.#chain = chain;
  }

  /** `load` gives a parameter's values by its name. */
  static async open(
    plan: Plan,
    executor: Executor,
    load: (name: string) => Tensor | Promise<Tensor>,
    bits?: WeightBits,
  ): Promise<LocalStage> {
    const stage = executor.openStage();
    const head = generationHead(plan).vnode;
    const links = new Map<string, VNodeGeneration>();
    for (const id of plan.order.slice(0, plan.order.indexOf(head as VNodeId) + 1)) {
      const vnode = plan.vnodes.find((each) => each.id === id)!;
      const own = vnode.parameters.map(({ name, shape, precision }) => ({ name, stored: name, shape, precision }));
      const tied = plan.edges
        .filter((edge) => edge.kind === "tie" && edge.to === id)
        .map((edge) => ({
          name: edge.toPort,
          stored: edge.fromPort,
          shape: edge.shape,
          precision: "float32" as const,
        }));
      const wanted = [...own, ...tied].map((each) => ({ ...each, state: stateOf(load) }));
      const weights = await ServingWeights.load(wanted, executor);
      links.set(id, await VNodeGeneration.open({ unit: buildUnit(plan, vnode), stage, weights, bits, name: id }));
    }
    const inner = plan.edges.filter(({ kind, from, to }) => kind === "activation" && links.has(from) && links.has(to));
    return new LocalStage(plan, stage, { links, inner, leaving: [], head });
  }

  /** Logits, a row for each that was asked for. */
  async pass(rows: readonly LocalRow[]): Promise<Float32Array[]> {
    return rowsOf((await this.#run(rows))[logitsOutput]);
  }

  /** Hidden states, a row for each that was asked for. */
  async hidden(rows: readonly LocalRow[]): Promise<Float32Array[]> {
    return rowsOf((await this.#run(rows))[hiddenOutput]);
  }

  async #run(rows: readonly LocalRow[]): Promise<Readonly<Record<string, Tensor>>> {
    const ids = Int32Array.from(rows.flatMap((row) => row.ids));
    const entries = rows.map(({ request, position, ids: own, logits = 1, hidden = 0, shared, adapter = 0 }) => ({
      ...{ request, position, tokens: own.length, logits, hidden, adapter },
      ...(shared && { shared }),
    }));
    const [first] = this.#chain.links.keys();
    const port = this.#plan.vnodes.find(({ id }) => id === first)?.inputs.find(({ source }) => source === "inputs");
    const inputs = { [port?.name as string]: { dtype: "int32" as const, shape: [ids.length, 1], data: ids } };
    const { outputs } = await runChain(this.#stage, this.#chain, entries, inputs, contextOf(this.#plan));
    return outputs;
  }

  /** What `read` makes of the logits, which are gone afterwards: without a copy, as a conductor reads them. */
  async read<T>(rows: readonly LocalRow[], read: (logits: Float32Array) => T): Promise<T> {
    const outputs = await this.#run(rows);
    const result = read((outputs[logitsOutput] as Tensor).data as Float32Array);
    this.#stage.recycle(Object.values(outputs));
    return result;
  }

  drop(request: string): void {
    for (const link of this.#chain.links.values()) link.drop([request]);
  }

  async close(): Promise<void> {
    for (const link of this.#chain.links.values()) await link.close();
  }
}

function rowsOf(tensor: Tensor | undefined): Float32Array[] {
  const { shape, data } = tensor as Tensor;
  const width = shape[1] as number;
  return Array.from({ length: shape[0] as number }, (_, row) =>
    (data as Float32Array).slice(row * width, (row + 1) * width),
  );
}

/** Read straight from where the values are. */
function stateOf(load: (name: string) => Tensor | Promise<Tensor>): StateReader {
  const readInto: StateReader["readInto"] = async (tensors) => {
    for (const { name, into } of tensors) into.set((await load(name)).data as Float32Array);
  };
  return { what: "a state in memory", readInto } as StateReader;
}
