// The gradients of one VNode in shared memory. Each microbatch writes to a block of its own; blocks are added
// in microbatch order, ((g0 + g1) + g2) and so on, so that the sum never depends on which worker was faster.

import { assert } from "../core/assert.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Executor, Float32Span, SharedBytes } from "../engine/engine.ts";
import { type Layout, type Place, spanOf, tensorAt } from "./layout.ts";

/** Row i of `rows` belongs to row ids[i] of the parameter. */
export interface SparseRows {
  readonly parameter: string;
  readonly ids: Tensor;
  readonly rows: Tensor;
}

export class Gradients {
  readonly #layout: Layout;
  readonly #executor: Executor;
  readonly #covered: readonly Place[];
  /** What the graph gives no gradient for; theirs is zero. */
  readonly #uncovered: readonly Place[];
  readonly #free: SharedBytes[] = [];
  readonly #blocks = new Map<number, SharedBytes>();
  /** Made once for each block: views over shared memory are slow to make. */
  readonly #views = new Map<SharedBytes, Record<string, Tensor>>();
  /** Gradients of embedding tables, which have no place in blocks. */
  readonly #tables: SharedBytes | undefined;
  #sum: SharedBytes | undefined;
  #adding: Promise<void> = Promise.resolve();

  /** `covered` are the names of the outputs of the graph that gives gradients. */
  constructor(layout: Layout, executor: Executor, covered: ReadonlySet<string>) {
    this.#layout = layout;
    this.#executor = executor;
    const dense = [...layout.parameters, ...layout.ties].filter((place) => place.start >= layout.sparseLength);
    this.#covered = dense.filter((place) => covered.has(`grad:${place.name}`));
    this.#uncovered = dense.filter((place) => !covered.has(`grad:${place.name}`));
    this.#tables = layout.sparseLength > 0 ? executor.allocate(4 * layout.sparseLength) : undefined;
  }

  /** Where a microbatch's run writes its gradients: by `grad:` + name. */
  openBlock(microbatch: number): Record<string, Tensor> {
    assert(!this.#blocks.has(microbatch), `microbatch ${microbatch} has one gradient`);
    const { gradientLength, sparseLength } = this.#layout;
    const block = this.#free.pop() ?? this.#executor.allocate(Math.max(4 * (gradientLength - sparseLength), 4));
    this.#blocks.set(microbatch, block);
    const zeros = this.#uncovered.map((place) => tensorAt(block, place, sparseLength));
    for (const { data } of zeros) (data as Float32Array).fill(0);
    this.#executor.upload(zeros);
    const known = this.#views.get(block);
    if (known !== undefined) return known;
    const views = Object.fromEntries(
      this.#covered.map((place) => [`grad:${place.name}`, tensorAt(block, place, sparseLength)]),
    );
    this.#views.set(block, views);
    return views;
  }

  /** Adds a microbatch's gradients to the sum; calls are carried out one after the other. */
  add(microbatch: number, sparse: readonly SparseRows[]): void {
    const block = this.#blocks.get(microbatch);
    assert(block !== undefined, `microbatch ${microbatch} has a gradient to add`);
    this.#blocks.delete(microbatch);
    const first = this.#sum === undefined;
    const sum = this.#sum ?? block;
    this.#sum = sum;
    if (first && this.#tables !== undefined)
      new Float32Array(this.#tables.buffer, this.#tables.offset, this.#layout.sparseLength).fill(0);
    const adding = this.#adding.then(async () => {
      const length = this.#layout.gradientLength - this.#layout.sparseLength;
      if (!first && length > 0)
        await this.#executor.kernel({
          kind: "accumulate",
          into: spanOf(sum, 0, length),
          add: spanOf(block, 0, length),
        });
      if (!first) this.#free.push(block);
      for (const rows of sparse) this.#addRows(rows);
      if (this.#tables !== undefined && (first || sparse.length > 0))
        this.#executor.upload([spanOf(this.#tables, 0, this.#layout.sparseLength)]);
    });
    // Whoever needs the sum learns of a failure; nobody else has to.
    adding.catch(() => {});
    this.#adding = adding;
  }

  #addRows({ parameter, ids, rows }: SparseRows): void {
    const place = this.#layout.parameters.find((candidate) => candidate.name === parameter);
    assert(place !== undefined, `rows belong to a parameter, not to ${parameter}`);
    const table = this.tensorOf(place).data as Float32Array;
    const values = rows.data as Float32Array;
    const width = place.shape.at(-1) ?? 1;
    for (let row = 0; row < ids.data.length; row++) {
      const target = Number(ids.data[row]) * width;
      const source = row * width;
      for (let i = 0; i < width; i++)
        table[target + i] = (table[target + i] as number) + (values[source + i] as number);
    }
    this.#executor.recycle([rows]);
  }

  /** Room for something else that is added up: what was learned in a round lies where gradients do. */
  open(): void {
    assert(this.#sum === undefined, "gradients of the step before are used up");
    const { gradientLength, sparseLength } = this.#layout;
    this.#sum = this.#free.pop() ?? this.#executor.allocate(Math.max(4 * (gradientLength - sparseLength), 4));
  }

  /** Complete once it resolves: then `spanAt` and `tensorOf` give the sum. */
  async settled(): Promise<void> {
    await this.#adding;
    assert(this.#sum !== undefined, "a sum has at least one gradient");
  }

  /** A range of the layout that lies within the tables or within the rest. */
  spanAt(start: number, length: number): Float32Span {
    const { sparseLength } = this.#layout;
    if (start < sparseLength) return spanOf(this.#tables as SharedBytes, start, length);
    return spanOf(this.#sum as SharedBytes, start - sparseLength, length);
  }

  tensorOf(place: Place): Tensor {
    const { sparseLength } = this.#layout;
    if (place.start < sparseLength) return tensorAt(this.#tables as SharedBytes, place);
    return tensorAt(this.#sum as SharedBytes, place, sparseLength);
  }

  /** The next step begins with nothing. */
  reset(): void {
    if (this.#sum !== undefined) this.#free.push(this.#sum);
    this.#sum = undefined;
  }

  free(): void {
    for (const block of [...this.#free, ...this.#blocks.values(), this.#sum, this.#tables])
      if (block !== undefined) this.#executor.free(block);
  }
}
