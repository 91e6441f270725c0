// How the copies of a VNode in several lanes add up their gradients. Each copy adds one shard for all of them; the sum is a
// fixed binary tree over lane numbers, so that it never depends on who was faster, nor on where it is made: a machine with
// lanes 4 to 7 may add those first.

import { assert } from "../core/assert.ts";
import { fail } from "../core/errors.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Executor, Float32Span, KernelCall, KernelOperand } from "../engine/engine.ts";
import { type Shard, shardOf } from "../network/lanes.ts";
import type { VNodePlan } from "../network/plan.ts";
import type { PortGradient } from "./effects.ts";
import type { Gradients } from "./gradients.ts";
import type { Layout } from "./layout.ts";
import { giveBack, type MessageMemory, open, packInPlace, type WireTensor } from "./wire.ts";

/** Adds what lies at `at` in two operands into the first. */
export interface Adding<T> {
  /** A new place with the content of one part, which is left as it is. */
  copy(part: T): Promise<T>;
  add(into: T, other: T): Promise<void>;
  /** A place that `copy` gave and nobody needs any more. */
  drop(place: T): void;
}

/**
 * The sum of what lanes have, by lane; lanes without a part count for nothing. Left is the largest whole power of two of
 * lanes, so that aligned groups of lanes are subtrees whatever the number of lanes. The result is a new place.
 */
export async function treeSum<T>(parts: ReadonlyMap<number, T>, lanes: number, adding: Adding<T>): Promise<T> {
  type Node = { readonly place: T; readonly isNew: boolean } | undefined;
  const sum = async (from: number, to: number): Promise<Node> => {
    if (to - from === 1) return parts.has(from) ? { place: parts.get(from) as T, isNew: false } : undefined;
    const middle = from + leftOf(to - from);
    const left = await sum(from, middle);
    const right = await sum(middle, to);
    if (left === undefined || right === undefined) return left ?? right;
    const place = left.isNew ? left.place : await adding.copy(left.place);
    await adding.add(place, right.place);
    if (right.isNew) adding.drop(right.place);
    return { place, isNew: true };
  };
  const whole = await sum(0, lanes);
  assert(whole !== undefined, "a sum has at least one part");
  return whole.isNew ? whole.place : adding.copy(whole.place);
}

/** The largest power of two below `count`. */
function leftOf(count: number): number {
  let left = 1;
  while (left * 2 < count) left *= 2;
  return left;
}

/** Adds tensors of the executor's pool, on its workers. */
function addingOn(executor: Executor): Adding<Tensor> {
  return {
    copy: async (part) => {
      const place = executor.tensor("float32", part.shape);
      await executor.kernel({ kind: "copy", into: place, of: part });
      return place;
    },
    add: async (into, add) => void (await executor.kernel({ kind: "accumulate", into, add })),
    drop: (place) => executor.recycle([place]),
  };
}

export interface ReduceOptions {
  readonly copy: NonNullable<VNodePlan["copy"]>;
  readonly layout: Layout;
  readonly gradients: Gradients;
  readonly executor: Executor;
  readonly memory: MessageMemory;
}

/** The gradient of one copy on its way into the sum of all. */
export class Reduction {
  readonly #options: ReduceOptions;

  constructor(options: ReduceOptions) {
    this.#options = options;
  }

  #shard(lane: number): Shard {
    return shardOf(this.#options.layout.weightLength, this.#options.copy.lanes, lane);
  }

  /** What others add up, by lane. `what` names the place in errors. */
  async parts(what: string): Promise<Map<string, WireTensor>> {
    const { lane: own, lanes } = this.#options.copy;
    const parts = new Map<string, WireTensor>();
    for (let lane = 0; lane < lanes; lane++) {
      const shard = this.#shard(lane);
      if (lane === own || shard.length === 0) continue;
      parts.set(String(lane), await this.#take(shard, what));
    }
    return parts;
  }

  async #take(shard: Shard, what: string): Promise<WireTensor> {
    const { executor, memory } = this.#options;
    const part = await this.#copyOf(shard);
    const { value } = await executor.kernel({ kind: "finite", of: part });
    if (value === 1) return packInPlace(part, "float32", what, memory);
    executor.recycle([part]);
    return fail("out_of_range", `${what} has NaN or infinity: lower the learning rate or clip`);
  }

  async #copyOf(shard: Shard): Promise<Tensor> {
    const { executor } = this.#options;
    const into = executor.tensor("float32", [shard.length]);
    await executor.kernels(
      this.#pieces(shard, into).map(([gradient, of]) => ({ kind: "copy", into: of, of: gradient })),
    );
    return into;
  }

  /** The sum of the own shard. From here on the own gradient holds it. Takes the parts over. */
  async sum(others: readonly PortGradient<WireTensor>[], what: string): Promise<WireTensor> {
    const { copy, executor } = this.#options;
    const shard = this.#shard(copy.lane);
    const own = await this.#copyOf(shard);
    const parts = new Map([[copy.lane, own]]);
    for (const { port, payload } of others) parts.set(Number(port), open(payload));
    const sum = await treeSum(parts, copy.lanes, addingOn(executor));
    executor.recycle([own]);
    for (const { payload } of others) giveBack(payload);
    await this.#put(shard, sum);
    const { value } = await executor.kernel({ kind: "finite", of: sum });
    if (value === 1) return packInPlace(sum, "float32", what, this.#options.memory);
    executor.recycle([sum]);
    return fail("out_of_range", `${what} has NaN or infinity: lower the learning rate or clip`);
  }

  /** Writes what other copies have added up into the own gradient. Takes the sums over. */
  async takeSums(sums: readonly PortGradient<WireTensor>[]): Promise<void> {
    for (const { port, payload } of sums) {
      await this.#put(this.#shard(Number(port)), open(payload));
      giveBack(payload);
    }
  }

  async #put(shard: Shard, content: Tensor): Promise<void> {
    const calls = this.#pieces(shard, content).map(
      ([gradient, of]): KernelCall => ({ kind: "copy", into: gradient, of }),
    );
    await this.#options.executor.kernels(calls);
  }

  /** A shard in the gradient and in a tensor of its own: gradients of tables lie apart from others. */
  #pieces({ start, length }: Shard, whole: Tensor): [gradient: Float32Span, piece: KernelOperand][] {
    const { layout, gradients } = this.#options;
    const end = start + length;
    const cut = Math.min(Math.max(layout.sparseLength, start), end);
    const data = whole.data as Float32Array;
    return [
      [start, cut],
      [cut, end],
    ].flatMap(([from, to]): [Float32Span, KernelOperand][] => {
      const count = (to as number) - (from as number);
      if (count === 0) return [];
      const piece = data.subarray((from as number) - start, (to as number) - start);
      return [[gradients.spanAt(from as number, count), { dtype: "float32", shape: [count], data: piece }]];
    });
  }
}
