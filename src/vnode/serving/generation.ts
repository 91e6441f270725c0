// The numerics of a VNode that answers: one pass at a time, with caches for its attention. Graphs are built for
// the shapes that occur and kept for a while.

import { fail } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Executor } from "../../engine/engine.ts";
import { canGenerate, type GenerationGraph, generationHead, maskedScore } from "../../network/graphs/generation.ts";
import type { Plan, VNodePlan } from "../../network/plan.ts";
import type { AnsweringGraphs } from "../../network/works.ts";
import { bucketOf, Caches } from "./caches.ts";
import { turn, turnable, withTurned } from "./turned.ts";
import type { ServingWeights } from "./weights.ts";

export interface PassRow {
  readonly request: string;
  readonly position: number;
  readonly ghost: boolean;
}

export interface PassShape {
  readonly rows: readonly PassRow[];
  /** New tokens of each row. */
  readonly tokens: number;
}

/** Loading a graph takes about a millisecond, keeping one a few hundred kilobytes. */
const graphsMax = 48;
/** A conductor has a few at a time; more means that it forgot to let them go. */
const requestsMax = 64;

interface Loaded {
  readonly name: string;
  readonly built: GenerationGraph;
}

export interface GenerationNeeds {
  readonly plan: Plan;
  readonly vnode: VNodePlan;
  readonly graphs: AnsweringGraphs;
  readonly executor: Executor;
  readonly weights: ServingWeights;
  /** Unique among what the executor runs. */
  readonly name: string;
}

export class VNodeGeneration {
  readonly #plan: Plan;
  readonly #vnode: VNodePlan;
  readonly #graphs: AnsweringGraphs;
  readonly #executor: Executor;
  readonly #weights: ServingWeights;
  readonly #name: string;
  readonly #loaded = new Map<string, Loaded>();
  readonly #plain = new Map<number, string>();
  readonly #context: number;
  readonly #turned: ReadonlySet<string>;
  /** The weights as graphs take them. */
  readonly #feeds: Record<string, Tensor>;
  #caches: Caches | undefined;

  private constructor(needs: GenerationNeeds, turned: ReadonlyMap<string, Tensor>) {
    const { plan, vnode, graphs, executor, weights, name } = needs;
    this.#plan = plan;
    this.#vnode = vnode;
    this.#graphs = graphs;
    this.#executor = executor;
    this.#weights = weights;
    this.#name = name;
    this.#context = plan.inputs?.shape[0] ?? 0;
    this.#turned = new Set(turned.keys());
    this.#feeds = { ...weights.all, ...Object.fromEntries(turned) };
  }

  static async open(needs: GenerationNeeds): Promise<VNodeGeneration> {
    const { weights, executor, name } = needs;
    const turned = new Map<string, Tensor>();
    for (const weight of await turnableOf(needs))
      turned.set(weight, await turn(weights.all[weight] as Tensor, executor, `${name}/turn`));
    return new VNodeGeneration(needs, turned);
  }

  get isHead(): boolean {
    return generationHead(this.#plan).vnode === this.#vnode.id;
  }

  /** Outputs by port; at the head `logits` [rows, classes]. The caller gives tensors back by `recycle`. */
  async run(shape: PassShape, inputs: Readonly<Record<string, Tensor>>): Promise<Record<string, Tensor>> {
    const { rows, tokens } = shape;
    for (const { position } of rows)
      if (position + tokens > this.#context)
        fail("out_of_range", `position ${position + tokens} is beyond the context of ${this.#context}`);
    const cached = bucketOf(Math.max(...rows.map(({ position }) => position)));
    const { name, built } = await this.#load(rows.length, tokens, cached);
    this.#caches ??= new Caches(this.#executor, built.caches);
    if (built.caches.length === 0) return this.#compute(name, { ...inputs, ...shapeFeeds(built, shape, cached) });
    this.#checkLengths(this.#caches, rows);
    const past = this.#caches.feeds(
      rows.map((row) => (row.ghost ? undefined : row.request)),
      cached,
    );
    const results = await this.#compute(name, { ...inputs, ...past, ...shapeFeeds(built, shape, cached) });
    for (const [row, { request, ghost }] of rows.entries())
      if (!ghost) this.#caches.append(request, results, row, tokens);
    return results;
  }

  /** A request begins anew at position 0; anywhere else it needs what lies before. */
  #checkLengths(caches: Caches, rows: readonly PassRow[]): void {
    if (rows.every(({ ghost }) => ghost)) fail("invalid_argument", "a pass has nothing but ghosts");
    for (const { request, position, ghost } of rows) {
      if (ghost) continue;
      if (position === 0) caches.drop(request);
      const length = caches.lengthOf(request);
      if (length !== position)
        fail("aborted", `request ${request} has ${length} positions at ${this.#vnode.id}, not ${position}`);
    }
    const fresh = rows.filter(({ request, ghost }) => !ghost && caches.lengthOf(request) === 0).length;
    if (caches.requests + fresh > requestsMax)
      fail("aborted", `${this.#vnode.id} keeps caches of ${caches.requests} requests already`);
  }

  async #compute(name: string, feeds: Readonly<Record<string, Tensor>>): Promise<Record<string, Tensor>> {
    return (await this.#executor.run(name, { ...this.#feeds, ...feeds }, { finite: true })) as Record<string, Tensor>;
  }

  /** Explicit tensors, no caches. */
  async forward(inputs: Readonly<Record<string, Tensor>>, samples: number): Promise<Record<string, Tensor>> {
    let name = this.#plain.get(samples);
    if (name === undefined) {
      name = `${this.#name}/plain/${samples}`;
      const graph = await this.#graphs.inference(samples);
      if (!this.#plain.has(samples)) {
        this.#executor.register(name, withTurned(graph, this.#turned));
        this.#plain.set(samples, name);
        this.#forgetOldest(this.#plain, graphsMax / 4);
      }
    }
    const results = await this.#executor.run(name, { ...this.#feeds, ...inputs }, { finite: true });
    return results as Record<string, Tensor>;
  }

  recycle(tensors: Iterable<Tensor>): void {
    this.#executor.recycle(tensors);
  }

  drop(request: string): void {
    this.#caches?.drop(request);
  }

  clear(): void {
    this.#caches?.clear();
  }

  close(): void {
    this.#caches?.clear();
    for (const { name } of this.#loaded.values()) this.#executor.unregister(name);
    for (const name of this.#plain.values()) this.#executor.unregister(name);
    this.#weights.free();
  }

  async #load(requests: number, tokens: number, cached: number): Promise<Loaded> {
    const key = `${requests}x${tokens}+${cached}`;
    const known = this.#loaded.get(key);
    if (known !== undefined) {
      // Moved to the end: the first of the map is the one not used for longest.
      this.#loaded.delete(key);
      this.#loaded.set(key, known);
      return known;
    }
    const built = await this.#graphs.generation({ requests, tokens, cached });
    const other = this.#loaded.get(key);
    if (other !== undefined) return other;
    const loaded = { name: `${this.#name}/${key}`, built };
    this.#executor.register(loaded.name, withTurned(built.graph, this.#turned));
    this.#loaded.set(key, loaded);
    const [oldestKey, oldest] = this.#loaded.entries().next().value as [string, Loaded];
    if (this.#loaded.size > graphsMax) {
      this.#loaded.delete(oldestKey);
      this.#executor.unregister(oldest.name);
    }
    return loaded;
  }

  #forgetOldest(names: Map<number, string>, most: number): void {
    const [oldest, name] = names.entries().next().value as [number, string];
    if (names.size <= most) return;
    names.delete(oldest);
    this.#executor.unregister(name);
  }
}

async function turnableOf({ plan, vnode, graphs, executor }: GenerationNeeds): Promise<ReadonlySet<string>> {
  if (executor.kind !== "native" || !canGenerate(plan)) return new Set();
  const { graph } = await graphs.generation({ requests: 1, tokens: 1, cached: 0 });
  return turnable(graph, new Set(vnode.parameters.map(({ name }) => name)));
}

/** Positions, mask and row choice of a pass. Caches are padded behind their values. */
function shapeFeeds(built: GenerationGraph, { rows, tokens }: PassShape, cached: number): Record<string, Tensor> {
  const feeds: Record<string, Tensor> = {};
  const requests = rows.length;
  if (built.positions) {
    const positions = Int32Array.from(
      { length: requests * tokens },
      (_, i) => (rows[Math.floor(i / tokens)]?.position ?? 0) + (i % tokens),
    );
    feeds["positions"] = { dtype: "int32", shape: [requests, tokens], data: positions };
  }
  const span = cached + tokens;
  if (built.keyPositions) {
    const keyPositions = new Int32Array(requests * span);
    for (const [row, { position }] of rows.entries())
      for (let key = 0; key < span; key++)
        if (key < position || key >= cached)
          keyPositions[row * span + key] = key < cached ? key : position + key - cached;
    feeds["key_positions"] = { dtype: "int32", shape: [requests, span], data: keyPositions };
  }
  if (built.mask) {
    const mask = new Float32Array(requests * tokens * span).fill(maskedScore);
    for (const [row, { position }] of rows.entries())
      for (let token = 0; token < tokens; token++) {
        const start = (row * tokens + token) * span;
        mask.fill(0, start, start + position);
        mask.fill(0, start + cached, start + cached + token + 1);
      }
    feeds["mask"] = { dtype: "float32", shape: [requests, tokens, span], data: mask };
  }
  feeds["select"] = {
    dtype: "int32",
    shape: [requests],
    data: Int32Array.from(rows, (_, row) => (row + 1) * tokens - 1),
  };
  return feeds;
}
