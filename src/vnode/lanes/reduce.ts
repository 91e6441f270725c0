// How the copies of a VNode in several lanes add up their gradients, or what they learned in a round. Each copy adds one shard for all of them; the sum is a
// fixed binary tree over lane numbers, so that it never depends on who was faster, nor on where it is made: a machine with
// lanes 4 to 7 may add those first.

import { assert } from "../../core/assert.ts";
import { fail } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Executor, Float32Span, KernelCall, KernelOperand } from "../../engine/engine.ts";
import { outerShape, type Shard, shardOf } from "../../network/lanes.ts";
import type { VNodePlan } from "../../network/plan.ts";
import type { PortGradient } from "../effects.ts";
import type { Gradients } from "../gradients.ts";
import type { Layout } from "../layout.ts";
import { giveBack, type MessageMemory, open, pack, packInPlace, type WireTensor } from "../wire.ts";

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
  /** What is added up lies where gradients do, and its sum after it. */
  readonly gradients: Gradients;
  readonly executor: Executor;
  readonly memory: MessageMemory;
}

/** Gradients travel as they are, what a round has taught in eight bits. */
export type Added = "reduce" | "outer";

/** What one copy adds to the sum of all, on its way into it. */
export class Reduction {
  readonly #options: ReduceOptions;

  constructor(options: ReduceOptions) {
    this.#options = options;
  }

  /** `lanes`: those that take part, in their order. */
  #shard(lane: number, lanes: readonly number[]): Shard {
    return shardOf(this.#options.layout.weightLength, lanes.length, lanes.indexOf(lane));
  }

  /** What others add up, by lane. `what` names the place in errors. */
  async parts(of: Added, lanes: readonly number[], what: string): Promise<Map<string, WireTensor>> {
    const { lane: own } = this.#options.copy;
    const parts = new Map<string, WireTensor>();
    for (const lane of lanes) {
      const shard = this.#shard(lane, lanes);
      if (lane === own || shard.length === 0) continue;
      parts.set(String(lane), await this.#packed(of, await this.#copyOf(of, shard), what));
    }
    return parts;
  }

  /** As it travels; takes the tensor over. */
  async #packed(of: Added, content: Tensor, what: string): Promise<WireTensor> {
    const { executor, memory } = this.#options;
    const { value } = await executor.kernel({ kind: "finite", of: content });
    if (value === 1 && of === "reduce") return packInPlace(content, "float32", what, memory);
    try {
      if (value !== 1) fail("out_of_range", `${what} has NaN or infinity: lower the learning rate or clip`);
      return pack(content, "int8", what, true);
    } finally {
      executor.recycle([content]);
    }
  }

  async #copyOf(of: Added, shard: Shard): Promise<Tensor> {
    const { executor } = this.#options;
    const into = executor.tensor("float32", of === "reduce" ? [shard.length] : outerShape(shard.length));
    (into.data as Float32Array).fill(0, shard.length);
    const copies = this.#pieces(shard, into).map(
      ([own, piece]): KernelCall => ({ kind: "copy", into: piece, of: own }),
    );
    await executor.kernels(copies);
    return into;
  }

  /** The sum of the own shard; the own memory holds it from here on, as others get it. Takes the parts over. */
  async sum(
    of: Added,
    lanes: readonly number[],
    others: readonly PortGradient<WireTensor>[],
    what: string,
  ): Promise<WireTensor> {
    const { copy, executor } = this.#options;
    const shard = this.#shard(copy.lane, lanes);
    // The own part goes through the rounding that others' go through: else copies would part.
    const own = await this.#packed(of, await this.#copyOf(of, shard), what);
    const parts = new Map([[copy.lane, open(own)]]);
    for (const { port, payload } of others) parts.set(Number(port), open(payload));
    const sum = await treeSum(parts, copy.lanes, addingOn(executor));
    for (const payload of [own, ...others.map((other) => other.payload)]) giveBack(payload);
    const packed = await this.#packed(of, sum, what);
    await this.#put(shard, open(packed));
    return packed;
  }

  /** Writes what other copies have added up beside the own sum. Takes the sums over. */
  async takeSums(sums: readonly PortGradient<WireTensor>[], lanes: readonly number[]): Promise<void> {
    for (const { port, payload } of sums) {
      await this.#put(this.#shard(Number(port), lanes), open(payload));
      giveBack(payload);
    }
  }

  async #put(shard: Shard, content: Tensor): Promise<void> {
    const copies = this.#pieces(shard, content).map(
      ([own, piece]): KernelCall => ({ kind: "copy", into: own, of: piece }),
    );
    await this.#options.executor.kernels(copies);
  }

  /** A shard where gradients lie and in a tensor of its own: gradients of tables lie apart from others. */
  #pieces({ start, length }: Shard, whole: Tensor): [own: Float32Span, piece: KernelOperand][] {
    const data = whole.data as Float32Array;
    return this.spans(start, length).map(({ from, count, span }) => [
      span,
      { dtype: "float32", shape: [count], data: data.subarray(from - start, from - start + count) },
    ]);
  }

  /** A range of the layout where gradients lie. */
  spans(
    start: number,
    length: number,
  ): { readonly from: number; readonly count: number; readonly span: Float32Span }[] {
    const { layout, gradients } = this.#options;
    const end = start + length;
    const cut = Math.min(Math.max(layout.sparseLength, start), end);
    const ranges = [
      { from: start, count: cut - start },
      { from: cut, count: end - cut },
    ];
    return ranges
      .filter(({ count }) => count > 0)
      .map(({ from, count }) => ({ from, count, span: gradients.spanAt(from, count) }));
  }
}
