// Repeats an answer by teacher forcing: prompt and answer go through the model once, VNode after VNode, and each token must be
// what is chosen after those before it. Rows do not depend on what shares their pass, so within a numerics class the bits are
// those of whoever answered. One VNode's weights are in memory at a time: a small machine checks a model that many serve.

import type { Sha256 } from "../../core/ids.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Executor } from "../../engine/engine.ts";
import { type Choice, Chooser } from "../../models/choosing.ts";
import { contextOf } from "../../network/graphs/generation.ts";
import type { VNodePlan } from "../../network/plan.ts";
import { bitsOf } from "../../network/weight-format.ts";
import type { StateReader } from "../../states/reader.ts";
import { runChain } from "../../vnode/serving/chain.ts";
import { VNodeGeneration } from "../../vnode/serving/generation.ts";
import { ServingWeights } from "../../vnode/serving/weights.ts";
import { open, pack } from "../../vnode/wire.ts";
import { hashesOfRows, rootOf } from "../serving/answer-rows.ts";
import type { TokenRequest } from "../serving/conductor-options.ts";
import type { ServingContext } from "../serving/serving-context.ts";
import { wantedWeights } from "../serving/wanted-weights.ts";

export interface GivenAnswer {
  readonly asked: TokenRequest;
  readonly answer: readonly number[];
  readonly finish: string;
}

export interface RepeatNeeds {
  readonly context: ServingContext;
  readonly executor: Executor;
  readonly openState: (state: Sha256) => Promise<StateReader>;
  /** Unique among what the executor runs. */
  readonly name: string;
  readonly signal: AbortSignal;
}

export interface RepeatedAnswer {
  /** What is chosen after the prompt and the answer so far, up to the first that differs. */
  readonly tokens: readonly number[];
  readonly ends: boolean;
  readonly roots: Readonly<Record<string, string>>;
  readonly sample: readonly number[];
}

/** Rows at a time; their number changes no bit. */
const chunkRows = 64;
/** Of the first logits, enough to tell how far two machines are apart. */
const sampleMax = 256;

export async function repeatAnswer(
  needs: RepeatNeeds,
  { asked, answer, finish }: GivenAnswer,
): Promise<RepeatedAnswer> {
  const { context, signal } = needs;
  const { plan, head, needed, onward } = context;
  const tokens = [...asked.prompt, ...answer];
  const first = asked.prompt.length - 1;
  // What ends an answer by itself is chosen from the row of its last token.
  const rows = finish === "stop" ? tokens.length : tokens.length - 1;
  const told = tokens.length - 1;
  const hashes = new Map<string, string[]>();
  const values = new Map<string, Tensor[]>([["inputs", chunked(tokens.slice(0, rows))]]);
  hashes.set(
    "inputs",
    (values.get("inputs") as Tensor[]).flatMap((chunk) => hashesOfRows(chunk, chunk.shape[0] ?? 0)),
  );
  const choices = new Choices(asked, answer, finish, contextOf(plan));
  for (const id of plan.order) {
    if (!needed.has(id)) continue;
    signal.throwIfAborted();
    const vnode = context.vnode(id);
    const leaving = onward.filter(({ from }) => from === id);
    for (const { id: edge } of leaving) {
      values.set(edge, []);
      hashes.set(edge, []);
    }
    await withVNode(needs, vnode, async (run) => {
      for (let start = 0, chunk = 0; start < rows; start += chunkRows, chunk++) {
        const count = Math.min(chunkRows, rows - start);
        const feeds: Record<string, Tensor> = {};
        for (const { name, kind, source } of vnode.inputs)
          if (kind === "activation" && source !== "labels")
            feeds[name] = values.get(context.edgeInto(id, name))?.[chunk] as Tensor;
        const logits = id === head ? Math.max(0, Math.min(count, start + count - first)) : 0;
        const row = { request: "check", position: start, tokens: count, logits, adapter: asked.adapter ?? 0 };
        const results = await run(row, feeds);
        for (const [index, edge] of leaving.entries()) {
          const travelled = open(pack(results.leaving[index] as Tensor, edge.wire, edge.id));
          (values.get(edge.id) as Tensor[]).push(travelled);
          (hashes.get(edge.id) as string[]).push(...hashesOfRows(travelled, count));
        }
        if (logits > 0) choices.take(results.outputs["logits"] as Tensor, logits);
      }
    });
    // Nobody after it needs what went in.
    for (const edge of onward) if (edge.to === id && isLastReader(context, edge.id, id)) values.delete(edge.id);
  }
  const roots = Object.fromEntries(Array.from(hashes, ([edge, list]) => [edge, rootOf(list, 0, told) ?? ""]));
  const logits = rootOf(choices.hashes, 0, told - first) ?? "";
  return { ...choices.found(), roots: { ...roots, logits }, sample: choices.sample };
}

/** An edge has one reader: its values go when that one has run. */
function isLastReader({ onward }: ServingContext, edge: string, vnode: string): boolean {
  return onward.every(({ id, to }) => id !== edge || to === vnode);
}

function chunked(ids: readonly number[]): Tensor[] {
  const chunks: Tensor[] = [];
  for (let start = 0; start < ids.length; start += chunkRows) {
    const data = Int32Array.from(ids.slice(start, start + chunkRows));
    chunks.push({ dtype: "int32", shape: [data.length, 1], data });
  }
  return chunks;
}

type RunRows = (
  row: { request: string; position: number; tokens: number; logits: number; adapter: number },
  feeds: Readonly<Record<string, Tensor>>,
) => ReturnType<typeof runChain>;

/** Loads a VNode, and lets it go whatever happens. */
async function withVNode(
  { context, executor, openState, name }: RepeatNeeds,
  vnode: VNodePlan,
  work: (run: RunRows) => Promise<void>,
): Promise<void> {
  const unit = await context.graphsOf(vnode).unit();
  const stage = executor.openStage();
  const weights = await ServingWeights.load(await wantedWeights(context, vnode, openState), executor);
  const needs = { unit, stage, weights, name: `${name}/${vnode.id}`, bits: bitsOf(context.weights) };
  const generation = await VNodeGeneration.open(needs);
  const chain = {
    links: new Map([[vnode.id as string, generation]]),
    inner: [],
    leaving: context.onward.filter(({ from }) => from === vnode.id),
    head: vnode.id === context.head ? context.head : undefined,
  };
  try {
    await work((row, feeds) => runChain(stage, chain, [row], feeds, contextOf(context.plan)));
  } finally {
    generation.clear();
    await generation.close();
  }
}

/** What is chosen row by row, as long as it is what was answered. */
class Choices {
  readonly hashes: string[] = [];
  sample: readonly number[] = [];
  readonly #asked: TokenRequest;
  readonly #answer: readonly number[];
  readonly #finish: string;
  readonly #chooser: Chooser;
  readonly #context: number;
  readonly #tokens: number[] = [];
  #last: Choice | undefined;
  #isOver = false;

  constructor(asked: TokenRequest, answer: readonly number[], finish: string, context: number) {
    this.#asked = asked;
    this.#answer = answer;
    this.#finish = finish;
    this.#context = context;
    this.#chooser = new Chooser(asked);
  }

  take({ data, shape }: Tensor, rows: number): void {
    const classes = shape.at(-1) as number;
    const tensor = { dtype: "float32" as const, shape: [rows, classes], data };
    this.hashes.push(...hashesOfRows(tensor, rows));
    for (let row = 0; row < rows; row++) {
      const logits = (data as Float32Array).slice(row * classes, (row + 1) * classes);
      if (this.sample.length === 0) this.sample = [...logits.subarray(0, sampleMax)];
      if (!this.#isOver) this.#choose(logits);
    }
  }

  #choose(logits: Float32Array): void {
    const { prompt, maxTokens } = this.#asked;
    const at = this.#tokens.length;
    // The answer ended with a token that is part of it.
    if (at === this.#answer.length && this.#last?.ends === "after") return;
    const produced = this.#answer.slice(0, at);
    const left = Math.min(maxTokens, this.#context - prompt.length) - at - 1;
    const choice = this.#chooser.choose(logits, { position: prompt.length + at, prompt, produced, left });
    this.#last = choice;
    if (choice.ends === "before") this.#isOver = true;
    else this.#tokens.push(choice.token);
    const endsEarly = choice.ends === "after" && at < this.#answer.length - 1;
    if (choice.token !== this.#answer[at] || endsEarly) this.#isOver = true;
  }

  found(): Pick<RepeatedAnswer, "tokens" | "ends"> {
    const { length } = this.#answer;
    const { maxTokens, prompt } = this.#asked;
    const isFull = length >= Math.min(maxTokens, this.#context - prompt.length);
    const isStopped = this.#last?.ends !== undefined;
    const ends = this.#finish === "stop" ? isStopped : this.#finish === "length" ? isFull && !isStopped : !isStopped;
    return { tokens: this.#tokens, ends };
  }
}
