// The weights and optimizer moments of one VNode in shared memory: made from the seed, saved and restored as
// checkpoints, hashed after every step.

import { fail } from "../core/errors.ts";
import { sha256 } from "../core/hash.ts";
import { randomKey } from "../core/random.ts";
import { firstNonFinite, sameShape, type Tensor } from "../core/tensor.ts";
import type { Executor, KernelCall, SharedBytes } from "../engine/engine.ts";
import type { ParameterPlan, VNodePlan } from "../network/plan.ts";
import { readCheckpoint, writeCheckpoint } from "./checkpoint.ts";
import { type Layout, type Place, spanOf, tensorAt } from "./layout.ts";

type Part = "weights" | "first" | "second";

export class VNodeState {
  readonly #plan: VNodePlan;
  readonly #layout: Layout;
  readonly #executor: Executor;
  readonly #memory: SharedBytes;
  readonly #parts: ReadonlyMap<Part, SharedBytes>;
  /** By parameter name; views of the weights, made once. */
  readonly tensors: ReadonlyMap<string, Tensor>;

  constructor(plan: VNodePlan, layout: Layout, executor: Executor) {
    this.#plan = plan;
    this.#layout = layout;
    this.#executor = executor;
    const bytes = Math.max(layout.weightLength * 4, 4);
    const parts = partsOf(plan);
    this.#memory = executor.allocate(bytes + (parts.length - 1) * distanceBetween(bytes));
    this.#parts = new Map(parts.map((part, i) => [part, within(this.#memory, i * distanceBetween(bytes), bytes)]));
    const weights = this.part("weights");
    this.tensors = new Map(layout.parameters.map((place) => [place.name, tensorAt(weights, place)]));
  }

  part(part: Part): SharedBytes {
    const memory = this.#parts.get(part);
    if (memory === undefined) fail("internal", `VNode ${this.#plan.id} keeps no ${part}`);
    return memory;
  }

  /** About what a snapshot takes. */
  get bytes(): number {
    return 4 * this.#layout.weightLength * this.#parts.size;
  }

  /** Drawn by the workers, span by span: a large table would hold the caller's thread up for seconds. */
  async initialise(seed: number): Promise<void> {
    const places = new Map(this.#layout.parameters.map((place) => [place.name, place]));
    const weights = this.part("weights");
    const calls = this.#plan.parameters.flatMap((parameter) =>
      initialCalls(parameter, places.get(parameter.name) as Place, weights, seed, this.#plan.id),
    );
    await Promise.all(calls.map((call) => this.#executor.kernel(call)));
  }

  /** A copy of everything, so that training goes on while it is uploaded. */
  snapshot(step: number): Uint8Array<ArrayBuffer> {
    const tensors = new Map<string, Tensor>();
    for (const [part, memory] of this.#parts)
      for (const place of this.#layout.parameters) tensors.set(nameIn(part, place.name), tensorAt(memory, place));
    const metadata = { format: "dcnr-vnode-1", vnode: this.#plan.id, step: String(step) };
    return writeCheckpoint({ metadata, tensors });
  }

  restore(file: Uint8Array, step: number): void {
    const what = `checkpoint of VNode ${this.#plan.id} at step ${step}`;
    const { metadata, tensors } = readCheckpoint(file, what);
    if (metadata["vnode"] !== this.#plan.id || metadata["step"] !== String(step))
      fail("data_loss", `${what} says it is of VNode ${metadata["vnode"]} at step ${metadata["step"]}`);
    for (const part of this.#parts.keys()) this.#load(part, (name) => tensors.get(nameIn(part, name)), what);
  }

  /** Weights alone, from a file that may hold a whole network's; moments start at zero. */
  adopt(file: Uint8Array): void {
    const what = "the state to start from";
    const { tensors } = readCheckpoint(file, what);
    this.#load("weights", (name) => tensors.get(name), what);
  }

  #load(part: Part, find: (name: string) => Tensor | undefined, what: string): void {
    for (const place of this.#layout.parameters) {
      const found = find(place.name);
      if (found === undefined) fail("data_loss", `${what} has no ${part} for ${place.name}`);
      if (found.dtype !== "float32" || !sameShape(found.shape, place.shape))
        fail("data_loss", `${what}: ${place.name} is ${found.dtype} [${found.shape}], needed float32 [${place.shape}]`);
      if (firstNonFinite(found.data) >= 0) fail("data_loss", `${what}: ${place.name} holds NaN or infinity`);
      (tensorAt(this.part(part), place).data as Float32Array).set(found.data as Float32Array);
    }
  }

  /** The digest of all weights. */
  digestCall(): KernelCall {
    return { kind: "digest", of: spanOf(this.part("weights"), 0, this.#layout.weightLength) };
  }

  /** The step hash: what two runs compare. */
  async hash(step: number): Promise<string> {
    if (this.#layout.weightLength === 0) return stepHash(this.#plan.id, step, "");
    const { digest } = await this.#executor.kernel(this.digestCall());
    return stepHash(this.#plan.id, step, digest ?? "");
  }

  free(): void {
    this.#executor.free(this.#memory);
  }
}

/** Updates walk all parts side by side, fastest when they are in one memory and not a multiple of 4 KiB apart. */
function distanceBetween(bytes: number): number {
  return Math.ceil(bytes / 4096) * 4096 + 1088;
}

function within({ buffer, offset }: SharedBytes, start: number, bytes: number): SharedBytes {
  return { buffer, offset: offset + start, bytes };
}

export function stepHash(vnode: string, step: number, digest: string): string {
  return sha256(`${vnode}\n${step}\n${digest}`);
}

function partsOf(plan: VNodePlan): Part[] {
  if (plan.parameters.length === 0) return ["weights"];
  if (plan.optimizer.kind === "sgd") return plan.optimizer.momentum === 0 ? ["weights"] : ["weights", "first"];
  return ["weights", "first", "second"];
}

function nameIn(part: Part, parameter: string): string {
  return part === "weights" ? parameter : `optimizer.${part}.${parameter}`;
}

/** Elements of one kernel call, a multiple of 4: some milliseconds of a worker. */
const initialSpanElements = 1 << 18;

function initialCalls(
  { name, initial }: ParameterPlan,
  { start, length }: Place,
  weights: SharedBytes,
  seed: number,
  vnode: string,
): KernelCall[] {
  const calls: KernelCall[] = [];
  for (let from = 0; from < length; from += initialSpanElements) {
    const into = spanOf(weights, start + from, Math.min(initialSpanElements, length - from));
    const key = () => randomKey("initial", seed, vnode, name);
    switch (initial.kind) {
      case "constant":
        calls.push({ kind: "fill", into, value: initial.value });
        break;
      case "normal":
        calls.push({ kind: "normal", into, key: key(), deviation: initial.deviation, from });
        break;
      case "uniform":
        calls.push({ kind: "uniform", into, key: key(), low: -initial.bound, high: initial.bound, from });
        break;
    }
  }
  return calls;
}
