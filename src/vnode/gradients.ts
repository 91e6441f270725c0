// The gradients of one VNode in shared memory. Each microbatch writes to a block of its own; blocks are added
// in microbatch order, ((g0 + g1) + g2) and so on, so that the sum never depends on which worker was faster.

import { assert } from "../core/assert.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Executor, SharedBytes } from "../engine/engine.ts";
import { type Layout, type Place, spanOf, tensorAt } from "./layout.ts";

export class Gradients {
  readonly #layout: Layout;
  readonly #executor: Executor;
  /** Parameters that the graph gives no gradient for; theirs is zero. */
  readonly #uncovered: readonly Place[];
  readonly #free: SharedBytes[] = [];
  readonly #blocks = new Map<number, SharedBytes>();
  #sum: SharedBytes | undefined;
  #adding: Promise<void> = Promise.resolve();

  constructor(layout: Layout, executor: Executor, covered: ReadonlySet<string>) {
    this.#layout = layout;
    this.#executor = executor;
    this.#uncovered = [...layout.parameters, ...layout.ties].filter((place) => !covered.has(`grad:${place.name}`));
  }

  /** Where a microbatch's run writes its gradients: by `grad:` + name. */
  openBlock(microbatch: number): Record<string, Tensor> {
    assert(!this.#blocks.has(microbatch), `microbatch ${microbatch} has one gradient`);
    const block = this.#free.pop() ?? this.#executor.allocate(Math.max(4 * this.#layout.gradientLength, 4));
    this.#blocks.set(microbatch, block);
    for (const place of this.#uncovered) (tensorAt(block, place).data as Float32Array).fill(0);
    const covered = [...this.#layout.parameters, ...this.#layout.ties].filter(
      (place) => !this.#uncovered.includes(place),
    );
    return Object.fromEntries(covered.map((place) => [`grad:${place.name}`, tensorAt(block, place)]));
  }

  /** Adds a microbatch's block to the sum; calls are carried out one after the other. */
  add(microbatch: number): void {
    const block = this.#blocks.get(microbatch);
    assert(block !== undefined, `microbatch ${microbatch} has a gradient to add`);
    this.#blocks.delete(microbatch);
    const sum = this.#sum;
    if (sum === undefined) {
      this.#sum = block;
      return;
    }
    const length = this.#layout.gradientLength;
    const adding = this.#adding.then(async () => {
      if (length > 0)
        await this.#executor.kernel({
          kind: "accumulate",
          into: spanOf(sum, 0, length),
          add: spanOf(block, 0, length),
        });
      this.#free.push(block);
    });
    // Whoever needs the sum learns of a failure; nobody else has to.
    adding.catch(() => {});
    this.#adding = adding;
  }

  /** The sum of all that was added; complete once it resolves. */
  async sum(): Promise<SharedBytes> {
    await this.#adding;
    assert(this.#sum !== undefined, "a sum has at least one gradient");
    return this.#sum;
  }

  /** The next step begins with nothing. */
  reset(): void {
    if (this.#sum !== undefined) this.#free.push(this.#sum);
    this.#sum = undefined;
  }

  free(): void {
    for (const block of [...this.#free, ...this.#blocks.values()]) this.#executor.free(block);
    if (this.#sum !== undefined) this.#executor.free(this.#sum);
  }
}
